# gnuplot scripts/time_comparison.gp, in the folder of the pictures
if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {
  set terminal pngcairo size 900,600 noenhanced background rgb '#ffffff' font 'DejaVu Sans,12'
} else {
  set terminal png size 900,600 noenhanced
}
set output 'time_comparison.png'
set style fill solid 0.9 noborder
set border 3 lc rgb '#606060'
set tics nomirror out scale 0.6
set grid ytics lt 1 lc rgb '#e2e2e2' lw 1
set key outside right top vertical Left reverse
set title font ',14'
set title 'Time of a step: average, and fastest to slowest'
set ylabel 'step (ms)'
set yrange [0:*]
set xtics ('seq 1024' 0) norotate
set lmargin 12
set xrange [-0.7:0.7]
$t0 << EOD
-0.32 10259.112708 10037.583668 10480.641748
EOD
$t1 << EOD
-0.16 26472.2566005 25195.089143 27749.424058
EOD
$t2 << EOD
0.0 23972.5170935 22821.939443000003 25123.094743999998
EOD
$t3 << EOD
0.16 24054.10404 23982.860753 24125.347327
EOD
$t4 << EOD
0.32 18297.646456000002 17215.965996000003 19379.326916
EOD
plot $t0 using 1:2:(0.1472) with boxes lc rgb '#7d8799' title 'no_dp', \
  $t1 using 1:2:(0.1472) with boxes lc rgb '#1f77c9' title 'ghost', \
  $t2 using 1:2:(0.1472) with boxes lc rgb '#e69f00' title 'flash', \
  $t3 using 1:2:(0.1472) with boxes lc rgb '#009e73' title 'bookkeeping', \
  $t4 using 1:2:(0.1472) with boxes lc rgb '#cc5fa5' title 'flash_bookkeeping', \
  $t0 using 1:3:(0):($4-$3) with vectors heads size graph 0.006,90 lw 1.5 lc rgb '#202020' notitle, \
  $t1 using 1:3:(0):($4-$3) with vectors heads size graph 0.006,90 lw 1.5 lc rgb '#202020' notitle, \
  $t2 using 1:3:(0):($4-$3) with vectors heads size graph 0.006,90 lw 1.5 lc rgb '#202020' notitle, \
  $t3 using 1:3:(0):($4-$3) with vectors heads size graph 0.006,90 lw 1.5 lc rgb '#202020' notitle, \
  $t4 using 1:3:(0):($4-$3) with vectors heads size graph 0.006,90 lw 1.5 lc rgb '#202020' notitle
