#include "shade/comm/job/relay.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

namespace shade::comm {

void Relay::pump() {
  std::array<char, 16384> buffer{};
  while (from_ >= 0) {
    const auto count = ::read(from_, buffer.data(), buffer.size());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (count <= 0) return close();
    line_.append(buffer.data(), static_cast<size_t>(count));
    size_t begin = 0;
    for (size_t end = 0; (end = line_.find('\n', begin)) != std::string::npos; begin = end + 1)
      emit(line_.substr(begin, end - begin));
    line_.erase(0, begin);
  }
}

void Relay::emit(const std::string& line) {
  const auto whole = prefix_ + line + "\n";
  std::fwrite(whole.data(), 1, whole.size(), to_);  // a NUL is passed on as well
  std::fflush(to_);
  if (!line.empty()) last_words_ = line;
}

void Relay::close() {
  if (from_ < 0) return;
  if (!line_.empty()) emit(std::exchange(line_, {}));
  ::close(from_);
  from_ = -1;
}

}  // namespace shade::comm
