# gnuplot scripts/memory_vs_time_tradeoff.gp, in the folder of the pictures
if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {
  set terminal pngcairo size 1000,650 noenhanced background rgb '#ffffff' font 'DejaVu Sans,12'
} else {
  set terminal png size 1000,650 noenhanced
}
set output 'memory_vs_time_tradeoff.png'
set style fill solid 0.9 noborder
set border 3 lc rgb '#606060'
set tics nomirror out scale 0.6
set grid ytics lt 1 lc rgb '#e2e2e2' lw 1
set key outside right top vertical Left reverse
set title font ',14'
set title 'Memory against time: lower left is better'
set xlabel 'step (ms), fastest to slowest'
set ylabel 'peak memory (GiB)'
set grid xtics
set xrange [0:*]
set yrange [0:*]
$s0 << EOD
10259.112708 7.776657521724701 10037.583668 10480.641748
EOD
$s1 << EOD
26472.2566005 7.7922863233834505 25195.089143 27749.424058
EOD
$s2 << EOD
23972.5170935 7.7922863233834505 22821.939443000003 25123.094743999998
EOD
$s3 << EOD
24054.10404 7.781155021861196 23982.860753 24125.347327
EOD
$s4 << EOD
18297.646456000002 7.781155021861196 17215.965996000003 19379.326916
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
