// What the program does before the libraries that it is linked with are initialised:
//
//   - ends if its working folder was deleted, because oneMKL would end it with its own message;
//   - makes waits of threads short. Threads of libgomp that wait for each other spin for milliseconds before they
//   sleep.
//     On a host that other programs use, the thread that is waited for gets no core meanwhile: a run took 4 to 14 times
//     as long. libgomp reads its settings when it is initialised and has no function for this one, so the program
//     starts itself again with the setting. Who sets OMP_WAIT_POLICY or GOMP_SPINCOUNT decides.
#pragma once

namespace shade::cli {

void forget_short_waits();  // children that are other programs keep their own default

}  // namespace shade::cli
