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
set offsets 0, graph 0.05, graph 0.08, 0
$s0 << EOD
199.95139379810777 7.776657521724701 171.65435010510294 239.41944372447543
EOD
$s1 << EOD
89.9742979679628 7.7922863233834505 80.99595726515824 101.19127431641786
EOD
$s2 << EOD
106.31308315065984 7.7922863233834505 102.3512137003527 110.59401986706006
EOD
$s3 << EOD
113.31633665432318 7.781155021861196 105.01434836423586 123.04364451092518
EOD
$s4 << EOD
169.8222091527614 7.781155021861196 163.35457450094373 176.823097854019
EOD
$s5 << EOD
176.76896448636558 7.761684929952025 172.5741478789026 181.17279114556555
EOD
plot $s0 using 1:2:3:4 with xerrorbars ps 1.8 lw 1.5 pt 7 lc rgb '#7d8799' notitle, \
  $s1 using 1:2:3:4 with xerrorbars ps 1.8 lw 1.5 pt 7 lc rgb '#1f77c9' notitle, \
  $s2 using 1:2:3:4 with xerrorbars ps 1.8 lw 1.5 pt 7 lc rgb '#e69f00' notitle, \
  $s3 using 1:2:3:4 with xerrorbars ps 1.8 lw 1.5 pt 7 lc rgb '#009e73' notitle, \
  $s4 using 1:2:3:4 with xerrorbars ps 1.8 lw 1.5 pt 7 lc rgb '#cc5fa5' notitle, \
  $s5 using 1:2:3:4 with xerrorbars ps 1.8 lw 1.5 pt 7 lc rgb '#7a52cc' notitle, \
  NaN with boxes lc rgb '#7d8799' title 'no_dp', \
  NaN with boxes lc rgb '#1f77c9' title 'ghost', \
  NaN with boxes lc rgb '#e69f00' title 'flash', \
  NaN with boxes lc rgb '#009e73' title 'bookkeeping', \
  NaN with boxes lc rgb '#cc5fa5' title 'flash_bookkeeping', \
  NaN with boxes lc rgb '#7a52cc' title 'auto'
