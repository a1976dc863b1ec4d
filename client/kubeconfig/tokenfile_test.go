package kubeconfig_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// doorman is a server in the process that lets in one token and notes those that it has seen.
type doorman struct {
	mu   sync.Mutex
	good string   // guarded by mu
	seen []string // guarded by mu
}

func (d *doorman) RoundTrip(r *http.Request) (*http.Response, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	d.seen = append(d.seen, token)
	code := http.StatusOK
	if token != d.good {
		code = http.StatusUnauthorized
	}
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

// admit changes the token that is let in.
func (d *doorman) admit(token string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.good = token
}

// last returns the token of the last request.
func (d *doorman) last() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen[len(d.seen)-1]
}

// tokenClient returns a client with the token of a file at a server, and what goes wrong with the file.
func tokenClient(t *testing.T, file string, server http.RoundTripper) (*client.Client, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var failures []string
	c := sample()
	c.Users["jane"] = kubeconfig.User{TokenFile: file}
	c.Failed = func(err error) {
		mu.Lock()
		defer mu.Unlock()
		failures = append(failures, err.Error())
	}
	config, _, err := c.Client("home")
	if err != nil {
		t.Fatal(err)
	}
	config.TLS, config.Transport = nil, server
	api, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return api, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return failures
	}
}

// replace replaces a file as a whole.
func replace(t *testing.T, path, text string) {
	t.Helper()
	write(t, path+".new", []byte(text))
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// TestTokenFileFollowed: a client reads its token again after 50 seconds, and after a refusal at its next
// request.
func TestTokenFileFollowed(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "token"), []byte("one\n"))
	synctest.Test(t, func(t *testing.T) {
		server := &doorman{good: "one"}
		api, failures := tokenClient(t, file, server)
		ask := func() error {
			_, err := api.Do(t.Context(), client.Request{Path: "/version"})
			return err
		}
		check := func(want string) {
			t.Helper()
			if err := ask(); err != nil || server.last() != want {
				t.Errorf("the token %s, want %s (%v)", server.last(), want, err)
			}
		}
		check("one")
		replace(t, file, " two ")
		time.Sleep(49 * time.Second)
		check("one")
		server.admit("two")
		time.Sleep(2 * time.Second)
		check("two")

		// The server refuses the token before its time: one request fails, and the next has the new one.
		replace(t, file, "three")
		server.admit("three")
		if err := ask(); !apierrors.IsUnauthorized(err) {
			t.Errorf("%v, want 401", err)
		}
		check("three")

		// The file is read again as long as it has the refused token.
		server.admit("four")
		for range 3 {
			if err := ask(); !apierrors.IsUnauthorized(err) {
				t.Errorf("%v, want 401", err)
			}
		}
		replace(t, file, "four")
		check("four")
		if got := failures(); len(got) != 0 {
			t.Errorf("failures: %q", got)
		}
	})
}

// TestTokenFileBroken: without a valid file the earlier token stays, and each error is reported once.
func TestTokenFileBroken(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "token"), []byte("one"))
	synctest.Test(t, func(t *testing.T) {
		server := &doorman{good: "one"}
		api, failures := tokenClient(t, file, server)
		for _, test := range []struct {
			change func() error
			want   string
		}{
			{func() error { return os.Remove(file) }, "no such file"},
			{func() error { return os.WriteFile(file, []byte(" \n"), 0o600) }, "is empty"},
			{func() error { return os.WriteFile(file, []byte("s3cret\ntoken"), 0o600) }, "not allowed in a token"},
			{func() error { os.Remove(file); return syscall.Mkfifo(file, 0o600) }, "not a regular file"},
			{func() error { os.Remove(file); return os.Mkdir(file, 0o700) }, "not a regular file"},
		} {
			if err := test.change(); err != nil {
				t.Fatal(err)
			}
			before := len(failures())
			for range 3 {
				time.Sleep(time.Minute)
				if _, err := api.Do(t.Context(), client.Request{Path: "/version"}); err != nil || server.last() != "one" {
					t.Errorf("the token %s (%v)", server.last(), err)
				}
			}
			got := failures()[before:]
			if test.want == "not a regular file" && len(got) == 0 { // as before
				got = failures()[before-1:]
			}
			if len(got) != 1 || !strings.Contains(got[0], test.want) || strings.Contains(got[0], "s3cret") {
				t.Errorf("failures %q, want one: %s", got, test.want)
			}
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		replace(t, file, "two")
		server.admit("two")
		time.Sleep(time.Minute)
		if _, err := api.Do(t.Context(), client.Request{Path: "/version"}); err != nil {
			t.Error(err)
		}
	})
}

// TestTokenFileRace: many requests at once, while the file changes, have a token that the file had.
func TestTokenFileRace(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "token"), []byte("t0"))
	server := &doorman{good: "none"}
	api, _ := tokenClient(t, file, server)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				if _, err := api.Do(t.Context(), client.Request{Path: "/version"}); !apierrors.IsUnauthorized(err) {
					t.Errorf("%v, want 401", err)
				}
			}
		})
	}
	for _, token := range []string{"t1", "t2", "t3"} {
		replace(t, file, token)
	}
	group.Wait()
	api.Do(t.Context(), client.Request{Path: "/version"})
	if got := server.last(); got != "t3" {
		t.Errorf("the last token is %s", got)
	}
	for _, token := range server.seen {
		if !strings.HasPrefix(token, "t") || len(token) != 2 {
			t.Errorf("a request had the token %q", token)
		}
	}
}
