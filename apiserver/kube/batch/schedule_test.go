package batch

import (
	"strings"
	"testing"
)

// FuzzSchedule: every schedule is taken or refused; more of the same space does
// not matter, and a field too many does.
func FuzzSchedule(f *testing.F) {
	for _, s := range []string{
		"0 0 * * *", "*/5 1-3,7 ? jan-MAR mon", "@daily", "@every 1h30m", "@every -1s", "TZ=Asia/Tokyo 0 0 * * *", "CRON_TZ=../../etc/passwd 0 0 * * *", "TZ=", "60 0 * * *",
		"1-0 * * * *", "*/0 * * * *", "1//2 * * * *", "1-2-3 * * * *", "99999999999999999999 * * * *", ", , , , ,", "* * * * sat-sun",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		err := parseSchedule(s)
		if strings.ContainsAny(s, "@=") {
			return
		}
		if again := parseSchedule(strings.Join(strings.Fields(s), "   ")); (err == nil) != (again == nil) {
			t.Errorf("%q: %v, with other spaces %v", s, err, again)
		}
		if err == nil && parseSchedule(s+" *") == nil {
			t.Errorf("%q is a schedule with a sixth field", s)
		}
	})
}
