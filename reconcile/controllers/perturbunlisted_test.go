package controllers_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// TestNothingBeforeAllIsListed has one of the lists that a controller needs fail for
// ten minutes, each in turn. What is not listed looks as if it did not exist, and
// what names it as if it were left over: before the list is there, nothing is written
// at all, and in the end there is what was asked for.
func TestNothingBeforeAllIsListed(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for number, more := 1, true; more; number++ {
				t.Run(fmt.Sprintf("copy=%d", number), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { more = s.unlisted(t, number) })
				})
			}
		})
	}
}

// unlisted reports whether there is a copy of that number.
func (s scenario) unlisted(t *testing.T, number int) bool {
	st, _, end := s.begin(t, uint64(number))
	defer end()
	u := &unlisted{number: number, until: 10 * time.Minute}
	begun, early := time.Now(), ""
	st.mu.Lock()
	st.fault = func(verb, name string) (bool, error) {
		if time.Since(begun) < u.until && early == "" {
			early = verb + " " + name
		}
		return true, nil
	}
	st.mu.Unlock()
	p := st.run(lag{unlisted: u})
	for _, step := range st.steps {
		time.Sleep(pause)
		step()
	}
	settle()
	st.wanted()
	p.stop(t)
	// Where there are several controllers, some may have all they need.
	if early != "" && u.made >= number && len(p.runners) == 1 {
		t.Errorf("%s before all was listed", early)
	}
	return u.made >= number
}
