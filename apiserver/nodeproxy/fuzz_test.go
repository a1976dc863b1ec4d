package nodeproxy

import (
	"net/url"
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// FuzzOptions: a kubelet is asked for nothing but what it knows, in a form that it
// reads, and everything else is the client's fault.
func FuzzOptions(f *testing.F) {
	for _, query := range []string{
		"follow=true&tailLines=10&limitBytes=1&sinceSeconds=3&stream=Stdout", "sinceTime=2026-01-02T03:04:05Z&sinceSeconds=1", "tailLines=-1", "stream=../..",
		"stdin=1&stdout&tty=false&command=sh&command=-c&command=%00", "ports=80&ports=65536", "ports=080&ports=%2B1", "container=c&previous=x;y",
	} {
		f.Add(query)
	}
	known := map[string]bool{
		"follow": true, "previous": true, "timestamps": true, "tailLines": true, "limitBytes": true, "sinceSeconds": true, "sinceTime": true, "stream": true,
		"input": true, "output": true, "error": true, "tty": true, "command": true, "port": true,
	}
	f.Fuzz(func(t *testing.T, text string) {
		query, _ := url.ParseQuery(text)
		logs, logErr := logQuery(query, "web")
		ports, portErr := portQuery(query)
		for _, err := range []error{logErr, portErr} {
			if err != nil && !apierrors.IsBadRequest(err) && !apierrors.IsInvalid(err) {
				t.Errorf("logQuery or portQuery of %q has the error %v, want a bad request or an invalid one", text, err)
			}
		}
		for _, out := range []url.Values{logs, ports, streamQuery(query)} {
			for name := range out {
				if !known[name] {
					t.Errorf("%q asks for %s", text, name)
				}
			}
		}
		for _, port := range ports["port"] {
			if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
				t.Errorf("%q asks for port %s", text, port)
			}
		}
		for _, name := range []string{"tailLines", "limitBytes", "sinceSeconds"} {
			if n, err := strconv.ParseInt(logs.Get(name), 10, 64); logs.Has(name) && (err != nil || n < 0) {
				t.Errorf("%q asks for %s %s", text, name, logs.Get(name))
			}
		}
	})
}
