package reload_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/authn/reload"
	"github.com/planekit/planekit/authn/tokenfile"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// file is a file of a test.
type file struct {
	mu   sync.Mutex
	data string
	err  error
}

func (f *file) write(data string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.data, f.err = data, err
}

func (f *file) read() ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return []byte(f.data), f.err
}

func Example() {
	f := &file{data: "s3cret,jane,1"}
	tokens, err := reload.New(reload.Config[*tokenfile.Authenticator]{Read: f.read, Parse: tokenfile.Read})
	if err != nil {
		fmt.Println(err)
		return
	}
	who := reload.Authenticator(tokens)
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer s3cret")

	u, known, _ := who.Authenticate(r)
	fmt.Println(u.Name, known)
	f.write("0ther,jane,1", nil)
	fmt.Println(tokens.Reload())
	_, known, err = who.Authenticate(r)
	fmt.Println(known, err)
	// Output:
	// jane true
	// <nil>
	// false unknown bearer token
}

// TestRun: the value follows the file, and what is bad changes nothing and is
// said, every time.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &file{data: "a"}
		parsed, changed := 0, 0
		var failed []string
		v, err := reload.New(reload.Config[string]{
			Read: f.read,
			Parse: func(data []byte) (string, error) {
				if parsed++; bytes.Contains(data, []byte("bad")) {
					return "", errors.New("not good")
				}
				return strings.ToUpper(string(data)), nil
			},
			Changed: func() { changed++ },
			Failed:  func(err error) { failed = append(failed, err.Error()) },
		})
		if err != nil || v.Current() != "A" {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- v.Run(ctx) }()
		for _, step := range []struct {
			data            string
			err             error
			want            string
			parsed, changed int
			failed          string
		}{
			{"a", nil, "A", 1, 0, ""},
			{"b", nil, "B", 2, 1, ""},
			{"bad", nil, "B", 3, 1, "parse: not good"},
			{"bad", nil, "B", 4, 1, "parse: not good"},
			{"c", errors.New("permission denied"), "B", 4, 1, "read: permission denied"},
			{"b", nil, "B", 4, 1, ""},
			{"c", nil, "C", 5, 2, ""},
			{"", nil, "", 6, 3, ""},
		} {
			failed = nil
			f.write(step.data, step.err)
			time.Sleep(time.Minute)
			synctest.Wait()
			if v.Current() != step.want || parsed != step.parsed || changed != step.changed || strings.Join(failed, "|") != step.failed {
				t.Errorf("%+v: %q, parsed %d, changed %d, failed %q", step, v.Current(), parsed, changed, failed)
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	good := func() ([]byte, error) { return nil, nil }
	parse := func([]byte) (int, error) { return 0, nil }
	for name, c := range map[string]reload.Config[int]{
		"nothing to read with":  {Parse: parse},
		"nothing to parse with": {Read: good},
		"unreadable":            {Read: func() ([]byte, error) { return nil, errors.New("gone") }, Parse: parse},
		"bad":                   {Read: good, Parse: func([]byte) (int, error) { return 0, errors.New("bad") }},
		"negative":              {Read: good, Parse: parse, Every: -1},
	} {
		if _, err := reload.New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestTogether is for the race detector.
func TestTogether(t *testing.T) {
	f := &file{data: "0"}
	v, err := reload.New(reload.Config[string]{Read: f.read, Parse: func(data []byte) (string, error) { return string(data), nil }})
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 50 {
				f.write(fmt.Sprint(i, j), nil)
				if err := v.Reload(); err != nil || v.Current() == "" {
					t.Error(err, v.Current())
				}
			}
		})
	}
	all.Wait()
	if got, _ := f.read(); v.Current() != string(got) {
		t.Errorf("%q, and the file is %q", v.Current(), got)
	}
}
