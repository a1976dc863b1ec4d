package lastvalid_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/internal/lastvalid"
)

// TestValue checks that a value follows its contents, stays as it is when they cannot be read or parsed,
// and is parsed only when they change.
func TestValue(t *testing.T) {
	var contents []string
	var failed error
	parsed := 0
	read := func() (list [][]byte, err error) {
		for _, text := range contents {
			list = append(list, []byte(text))
		}
		return list, failed
	}
	parse := func(list [][]byte) (string, error) {
		parsed++
		text := fmt.Sprintf("%s", list)
		if strings.Contains(text, "bad") {
			return "", errors.New("bad")
		}
		return text, nil
	}
	contents = []string{"bad"}
	if v, err := lastvalid.New(read, parse); err == nil {
		t.Errorf("the first value is %s", v.Current())
	}
	contents = []string{"a", "bc"}
	v, err := lastvalid.New(read, parse)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		contents []string
		failed   error
		changed  bool
		fails    bool
		want     string
	}{
		{[]string{"a", "bc"}, nil, false, false, "[a bc]"},
		{[]string{"ab", "c"}, nil, true, false, "[ab c]"}, // the same bytes in other files
		{[]string{"bad"}, nil, false, true, "[ab c]"},
		{[]string{"bad"}, nil, false, true, "[ab c]"},
		{[]string{"new"}, errors.New("gone"), false, true, "[ab c]"},
		{[]string{"new"}, nil, true, false, "[new]"},
		{nil, nil, true, false, "[]"},
	} {
		contents, failed = step.contents, step.failed
		changed, err := v.Refresh()
		if changed != step.changed || (err != nil) != step.fails || v.Current() != step.want {
			t.Errorf("%v: changed %t, %v, the value is %s", step.contents, changed, err, v.Current())
		}
	}
	before := parsed
	if _, err := v.Refresh(); err != nil || parsed != before {
		t.Errorf("%v, parsed %d times without a change", err, parsed-before)
	}
}
