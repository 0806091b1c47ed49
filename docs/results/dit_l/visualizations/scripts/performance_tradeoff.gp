# gnuplot scripts/performance_tradeoff.gp, in the folder of the pictures
if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {
  set terminal pngcairo size 1000,650 noenhanced background rgb '#ffffff' font 'DejaVu Sans,12'
} else {
  set terminal png size 1000,650 noenhanced
}
set output 'performance_tradeoff.png'
set style fill solid 0.9 noborder
set border 3 lc rgb '#606060'
set tics nomirror out scale 0.6
set grid ytics lt 1 lc rgb '#e2e2e2' lw 1
set key outside right top vertical Left reverse
set title font ',14'
set title 'Throughput against memory: lower right is better'
set xlabel 'tokens/s, slowest to fastest step'
set ylabel 'peak memory (GiB)'
set grid xtics
set xrange [0:*]
set yrange [0:*]
$s0 << EOD
199.6274003699151 7.776657521724701 195.40788142966682 204.0331685133606
EOD
$s1 << EOD
77.36401285719322 7.7922863233834505 73.80333356538884 81.28568183966912
EOD
$s2 << EOD
85.4311623603056 7.7922863233834505 81.51861945627186 89.73821024786598
EOD
$s3 << EOD
85.14139610414689 7.781155021861196 84.88996955115215 85.39431642840259
EOD
$s4 << EOD
111.92696311652901 7.781155021861196 105.6796249362575 118.95934276797695
EOD
plot $s0 using 1:2:3:4 with xerrorbars ps 1.8 lw 1.5 pt 7 lc rgb '#7d8799' notitle, \
  $s1 using 1:2:3:4 with xerrorbars ps 1.8 lw 1.5 pt 7 lc rgb '#1f77c9' notitle, \
  $s2 using 1:2:3:4 with xerrorbars ps 1.8 lw 1.5 pt 7 lc rgb '#e69f00' notitle, \
  $s3 using 1:2:3:4 with xerrorbars ps 1.8 lw 1.5 pt 7 lc rgb '#009e73' notitle, \
  $s4 using 1:2:3:4 with xerrorbars ps 1.8 lw 1.5 pt 7 lc rgb '#cc5fa5' notitle, \
  NaN with boxes lc rgb '#7d8799' title 'no_dp', \
  NaN with boxes lc rgb '#1f77c9' title 'ghost', \
  NaN with boxes lc rgb '#e69f00' title 'flash', \
  NaN with boxes lc rgb '#009e73' title 'bookkeeping', \
  NaN with boxes lc rgb '#cc5fa5' title 'flash_bookkeeping'
