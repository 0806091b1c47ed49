# gnuplot scripts/cpu_communication_breakdown.gp, in the folder of the pictures
if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {
  set terminal pngcairo size 900,650 noenhanced background rgb '#ffffff' font 'DejaVu Sans,12'
} else {
  set terminal png size 900,650 noenhanced
}
set output 'cpu_communication_breakdown.png'
set style fill solid 0.9 noborder
set border 3 lc rgb '#606060'
set tics nomirror out scale 0.6
set grid ytics lt 1 lc rgb '#e2e2e2' lw 1
set key outside right top vertical Left reverse
set title font ',14'
set title 'Where the time of a step goes'
set ylabel 'step (ms)'
set yrange [0:*]
set xtics ('no_dp, seq 1024' 0, 'ghost, seq 1024' 1, 'flash, seq 1024' 2, 'bookkeeping, seq 1024' 3, 'flash_bookkeeping, seq 1024' 4, 'auto, seq 1024' 5) rotate by 35 right
set lmargin 12
set xrange [-0.7:5.7]
$stack << EOD
0.0 10242.4859795 10242.4892425
1.0 22762.0522575 22762.055901
2.0 19263.8528375 19263.856708
3.0 18073.294600000005 18073.298700500003
4.0 12059.667684 12059.6711715
5.0 11585.740645999998 11585.744171499999
EOD
plot $stack using 1:3:(0.85) with boxes lc rgb '#e6b800' title 'data and preprocessing', \
  $stack using 1:2:(0.85) with boxes lc rgb '#009e73' title 'computing'
