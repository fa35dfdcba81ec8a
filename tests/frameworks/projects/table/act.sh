place=$1
[ "$ACT" = skip ] && exit 77
echo ran >> "$MARKS/$place"
[ "$AT" = "$place" ] || exit 0
case $ACT in
exit) exit 0 ;;
kill) kill -9 $$ ;;
flood) head -c 3145728 /dev/zero | tr '\0' x ;;
close) exec >&- 2>&- ;;
wait) sleep 60 ;;
esac
