package chain_test

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/chain"
	"github.com/planekit/planekit/cni/skel"
)

// runtime calls the plugin and notes the calls it makes in turn.
type runtime struct {
	conf  string
	calls []string
	fail  string
}

func (r *runtime) call(cmd string) (int, string) {
	env := map[string]string{
		"CNI_COMMAND": cmd, "CNI_CONTAINERID": "c1", "CNI_NETNS": "/ns", "CNI_IFNAME": "eth0", "CNI_PATH": "/bin",
	}
	var stdout, stderr bytes.Buffer
	code := chain.Plugin().Main(skel.Process{
		Getenv: func(k string) string { return env[k] },
		Stdin:  strings.NewReader(r.conf), Stdout: &stdout, Stderr: &stderr,
		Executor: cni.ExecutorFunc(func(_ context.Context, c cni.Call) ([]byte, error) {
			call := c.Type + " " + c.Command
			if strings.Contains(string(c.Stdin), `"runtimeConfig":{"mac":"x"}`) {
				call += " mac"
			}
			r.calls = append(r.calls, call)
			if call == r.fail {
				return nil, cni.Errorf(120, "no luck")
			}
			return []byte(`{"cniVersion":"1.1.0"}`), nil
		}),
	})
	return code, stdout.String()
}

func TestChain(t *testing.T) {
	conf := func(delegates string) string {
		return `{"cniVersion":"1.1.0","name":"n","type":"planekit-cni","dir":"` + t.TempDir() + `",
			"runtimeConfig":{"mac":"x","bandwidth":{}},"cni.dev/valid-attachments":[],
			"prevResult":{"cniVersion":"1.1.0"},"delegates":[` + delegates + `]}`
	}
	const two = `{"type":"a","capabilities":{"mac":true}},{"type":"b"}`
	for _, test := range []struct {
		name, conf, fail string
		cmds             []string
		code             int
		out              string
		calls            []string
	}{
		{name: "life", conf: conf(two), cmds: []string{"ADD", "CHECK", "STATUS", "DEL"}, calls: []string{
			"a ADD mac", "b ADD", "a CHECK mac", "b CHECK", "a STATUS", "b STATUS", "b DEL", "a DEL mac"}},
		{name: "failure", conf: conf(two), fail: "b ADD", cmds: []string{"ADD"}, code: 1, out: `"code":120,`, calls: []string{
			"a ADD mac", "b ADD", "b DEL", "a DEL mac"}},
		{name: "gc", conf: conf(two), cmds: []string{"ADD", "GC"}, calls: []string{
			"a ADD mac", "b ADD", "b DEL", "a DEL mac", "a GC", "b GC"}},
		{name: "nothing to do", conf: conf(``), cmds: []string{"ADD"}, code: 1, out: "no plugins"},
		{name: "bad delegate", conf: conf(`{"type":"../x"}`), cmds: []string{"DEL"}, code: 1, out: "without separators"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := &runtime{conf: test.conf, fail: test.fail}
			var code int
			var out string
			for _, cmd := range test.cmds {
				code, out = r.call(cmd)
			}
			if code != test.code || !strings.Contains(out, test.out) || !slices.Equal(r.calls, test.calls) {
				t.Errorf("exit code %d, %s, calls %q", code, out, r.calls)
			}
		})
	}
}

func TestNetworkNeedsARange(t *testing.T) {
	if err := (chain.Network{}).Write(t.TempDir()); err == nil {
		t.Error("no error")
	}
}
