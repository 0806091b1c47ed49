"""Conversations as transformers writes them by a folder's chat template (with the peers' Python).

    chat_templates.py folder BASE OUT TEMPLATE BOS EOS TOKEN...   a tokenizer's folder: BASE/tokenizer.json with these
                                                                  tokens, and the template
    chat_templates.py cases COUNT SEED FOLDER...                  FOLDER/cases.jsonl: a line per conversation: messages,
                                                                  generation prompt, text and ids; text is null if it
                                                                  is refused
"""
import json
import pathlib
import random
import sys

WORDS = ["the harbour", "Where is it?", "two  spaces", "line\nbreak", "three\n\n\nlines", "tab\tstop", "naïve café", "東京の港", "🚢🚢",
         "é", "a\u200bb", "x = {'y': [1, 2]}", "it's", "don't", "1234567", "{{ braces }}", "{% raw %}", "<b>html</b>", "end.", "\\n", "C:\\new", "'quoted'", "\"so\""]
ENDS = ["", "", "", "", " ", "  ", "\n", "\n\n", "\t", "\u3000", "\u00a0", "\u2003", "\x1c", "\x1f", "\u0085", "\u200b", "\ufeff"]


def content(dice, role):
    middle = " ".join(dice.choice(WORDS) for _ in range(dice.randrange(0, 6)))
    if role == "assistant" and dice.random() < 0.25:
        thought = dice.choice(["", "\n", "why", "\nwhy not\n", "\n\nso\n\n"])
        middle = dice.choice(["<think>", "<think>\n", ""]) + thought + "</think>" + dice.choice(["", "\n", "\n\n"]) + middle
    if role == "user" and dice.random() < 0.05:
        middle = "<tool_response>" + middle + "</tool_response>"
        return middle
    return dice.choice(ENDS) + middle + dice.choice(ENDS)


def conversation(dice):
    roles = ["system"] if dice.random() < 0.4 else []
    if dice.random() < 0.2:
        roles += [dice.choice(["system", "user", "assistant"]) for _ in range(dice.randrange(1, 5))]
    else:
        roles += [("user", "assistant")[i % 2] for i in range(dice.randrange(1, 8))]
    return [{"role": role, "content": content(dice, role)} for role in roles]


def make_folder(base, out, template, bos, eos, *tokens):
    out = pathlib.Path(out)
    text = pathlib.Path(base, "tokenizer.json").read_text()
    text = text.replace("<|begin_of_text|>", bos).replace("<|end_of_text|>", eos)
    tokenizer = json.loads(text)
    added = tokenizer["added_tokens"]
    next_id = max([token["id"] for token in added] + list(tokenizer["model"]["vocab"].values())) + 1
    known = {token["content"] for token in added}
    for i, token in enumerate(token for token in tokens if token not in known):
        added.append({**added[0], "id": next_id + i, "content": token})
    (out / "tokenizer.json").write_text(json.dumps(tokenizer))
    (out / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": bos, "eos_token": eos}))
    (out / "chat_template.jinja").write_bytes(pathlib.Path(template).read_bytes())


def write_cases(count, seed, *folders):
    import jinja2
    import transformers

    for folder in map(pathlib.Path, folders):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        dice = random.Random(int(seed))
        with open(folder / "cases.jsonl", "w") as file:
            for _ in range(int(count)):
                case = {"messages": conversation(dice), "generation_prompt": dice.random() < 0.5, "text": None, "ids": []}
                options = {"add_generation_prompt": case["generation_prompt"], "date_string": "26 Jul 2024"}
                try:
                    case["text"] = tokenizer.apply_chat_template(case["messages"], tokenize=False, **options)
                    case["ids"] = tokenizer.apply_chat_template(case["messages"], tokenize=True, return_dict=False, **options)
                except jinja2.exceptions.TemplateError:
                    pass
                file.write(json.dumps(case) + "\n")


{"folder": make_folder, "cases": write_cases}[sys.argv[1]](*sys.argv[2:])
