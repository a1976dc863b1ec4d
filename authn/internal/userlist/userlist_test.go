package userlist_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/planekit/planekit/authn/internal/userlist"
	"github.com/planekit/planekit/authn/user"
)

func format() userlist.Format {
	return userlist.Format{File: "list", Secret: "word", Check: func(l userlist.Line) (string, string, error) {
		if l.Secret == "bad" {
			return "", "", errors.New("is bad")
		}
		return l.Secret, "word", nil
	}}
}

func TestParse(t *testing.T) {
	lines, err := format().Parse(strings.NewReader("a,jane,1\n\nb,joe,,\"dev, ops,\"\n\"c,\"\"d\",\"x\ny\",2,one\n"))
	want := []userlist.Line{
		{Secret: "a", User: user.Info{Name: "jane", UID: "1"}},
		{Secret: "b", User: user.Info{Name: "joe", Groups: []string{"dev", "ops"}}},
		{Secret: `c,"d`, User: user.Info{Name: "x\ny", UID: "2", Groups: []string{"one"}}},
	}
	if err != nil || !reflect.DeepEqual(lines, want) {
		t.Errorf("Parse = %+v, %v, want %+v", lines, err, want)
	}
}

func TestErrors(t *testing.T) {
	for file, want := range map[string]string{
		"a,b":                      "list: line 1: has 2 of at least 3 columns: word, user name, user uid",
		"\n\na,b,c,d,e":            "list: line 3: has 5 columns; several groups are one column, in quotes",
		"a,b,c\n,b,c":              "list: line 2: the word is empty",
		"a,,c":                     "list: line 1: the user name is empty",
		"a,b,c\nd,\"x\ny\",\na,,c": "list: line 4: the user name is empty",
		"a,b,c\nd,\"x\ny\",\na,b,": "list: line 4: the same word as on line 1",
		"a,b,c\nbad,b,c":           "list: line 2: is bad",
		"a,b\"c,d":                 "list: parse error on line 1",
	} {
		if lines, err := format().Parse(strings.NewReader(file)); err == nil || lines != nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", file, err, want)
		}
	}
	if _, err := format().Parse(broken{}); !errors.Is(err, errBroken) {
		t.Errorf("a file that breaks off: %v", err)
	}
}

var errBroken = errors.New("disk on fire")

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errBroken }
