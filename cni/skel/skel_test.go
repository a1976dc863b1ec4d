package skel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/skel"
)

type env map[string]string

func (e env) get(k string) string { return e[k] }

func TestMainOutcomes(t *testing.T) {
	plugin := skel.Plugin{
		Name: "test",
		Add: func(_ context.Context, r *skel.Request) (*cni.Result, error) {
			switch r.ContainerID {
			case "own":
				return nil, fmt.Errorf("while adding: %w", cni.Errorf(123, "no luck"))
			case "plain":
				return nil, errors.New("no luck")
			case "io":
				return nil, &fs.PathError{Op: "open", Path: "/x", Err: fs.ErrNotExist}
			}
			return &cni.Result{Interfaces: []cni.Interface{{Name: r.Args.Get("K")}}}, nil
		},
		Check: func(_ context.Context, r *skel.Request) error {
			if len(r.Previous.Interfaces) != 1 {
				return errors.New("no previous result")
			}
			return nil
		},
	}
	const conf = `{"cniVersion":"1.0.0","name":"n"}`
	full := func(cmd, id string) env {
		return env{"CNI_COMMAND": cmd, "CNI_CONTAINERID": id, "CNI_NETNS": "/ns", "CNI_IFNAME": "eth0", "CNI_ARGS": "K=v"}
	}
	without := func(e env, k string) env { delete(e, k); return e }
	for _, test := range []struct {
		name  string
		env   env
		stdin string
		code  int
		out   string
	}{
		{"add", full("ADD", "a"), conf, 0, `{"cniVersion":"1.0.0","interfaces":[{"name":"v"}]}`},
		{"own error", full("ADD", "own"), conf, 1, `{"cniVersion":"1.0.0","code":123,"msg":"while adding: no luck (code 123)"}`},
		{"plain error", full("ADD", "plain"), conf, 1, `{"cniVersion":"1.0.0","code":100,"msg":"no luck"}`},
		{"io error", full("ADD", "io"), conf, 1, `{"cniVersion":"1.0.0","code":5,"msg":"open /x: file does not exist"}`},
		{"del", full("DEL", "a"), conf, 0, ``},
		{"del without a namespace", without(full("DEL", "a"), "CNI_NETNS"), conf, 0, ``},
		{"del with a torn result", full("DEL", "a"), `{"cniVersion":"1.0.0","name":"n","prevResult":{"ips":[{}]}}`, 0, ``},
		{"add without a namespace", without(full("ADD", "a"), "CNI_NETNS"), conf, 1, `"code":4,`},
		{"add without a container", without(full("ADD", "a"), "CNI_CONTAINERID"), conf, 1, `"code":4,`},
		{"bad interface", env{"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "a", "CNI_NETNS": "/ns", "CNI_IFNAME": "a/b"}, conf, 1, `"code":4,`},
		{"bad arguments", env{"CNI_COMMAND": "ADD", "CNI_ARGS": "K"}, conf, 1, `"code":4,`},
		{"unknown command", full("NOP", "a"), conf, 1, `"code":4,`},
		{"no configuration", full("ADD", "a"), ``, 1, `"code":6,`},
		{"network without a name", full("ADD", "a"), `{"cniVersion":"1.0.0"}`, 1, `"code":7,`},
		{"wrong version", full("ADD", "a"), `{"cniVersion":"9.0.0","name":"n"}`, 1, `"code":1,`},
		{"check too early", full("CHECK", "a"), `{"cniVersion":"0.3.1","name":"n"}`, 1, `"code":1,`},
		{"check", full("CHECK", "a"), `{"cniVersion":"0.4.0","name":"n","prevResult":{"interfaces":[{"name":"x"}]}}`, 0, ``},
		{"check without a result", full("CHECK", "a"), conf, 1, `"code":7,`},
		{"status", full("STATUS", ""), `{"cniVersion":"1.1.0","name":"n"}`, 0, ``},
		{"version", env{"CNI_COMMAND": "VERSION"}, `{"cniVersion":"1.1.0"}`, 0, `{"cniVersion":"1.1.0","supportedVersions":["0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}`},
		{"by hand", env{}, ``, 1, ``},
	} {
		t.Run(test.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := plugin.Main(skel.Process{Getenv: test.env.get, Stdin: strings.NewReader(test.stdin), Stdout: &stdout, Stderr: &stderr})
			out := stdout.String()
			if code != test.code || test.out == "" && out != "" || !strings.Contains(out, test.out) {
				t.Errorf("exit code %d, %s; want %d, %s", code, out, test.code, test.out)
			}
			if test.code == 0 && stderr.Len() > 0 || test.name == "by hand" && !strings.Contains(stderr.String(), "CNI plugin") {
				t.Errorf("stderr %q", stderr.String())
			}
		})
	}
}

func TestDelegate(t *testing.T) {
	var got cni.Call
	plugin := skel.Plugin{Add: func(ctx context.Context, r *skel.Request) (*cni.Result, error) {
		out, err := r.Delegate(ctx, cni.CmdAdd, "ipam")
		if err != nil {
			return nil, err
		}
		return cni.ParseResult(out, r.CNIVersion)
	}}
	e := env{"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "a", "CNI_NETNS": "/ns", "CNI_IFNAME": "eth0", "CNI_PATH": "/one:/two", "CNI_ARGS": "K=v"}
	conf := `{"cniVersion":"1.0.0","name":"n"}`
	var stdout bytes.Buffer
	code := plugin.Main(skel.Process{
		Getenv: e.get, Stdin: strings.NewReader(conf), Stdout: &stdout, Stderr: os.Stderr,
		Executor: cni.ExecutorFunc(func(_ context.Context, c cni.Call) ([]byte, error) {
			got = c
			return nil, cni.Errorf(11, "soon")
		}),
	})
	if code != 1 || !strings.Contains(stdout.String(), `"code":11`) {
		t.Errorf("Main = %d with the output %s, want 1 with \"code\":11", code, stdout.String())
	}
	if got.Command != "ADD" || got.Type != "ipam" || string(got.Stdin) != conf || len(got.Path) != 2 || got.NetNS != "/ns" || got.Args.Get("K") != "v" {
		t.Errorf("call %+v", got)
	}
}

func Example() {
	plugin := skel.Plugin{
		Name: "hello",
		Add: func(_ context.Context, r *skel.Request) (*cni.Result, error) {
			return &cni.Result{Interfaces: []cni.Interface{{Name: r.IfName, Sandbox: r.NetNS}}}, nil
		},
	}
	env := map[string]string{
		"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c1", "CNI_NETNS": "/run/netns/c1", "CNI_IFNAME": "eth0",
	}
	plugin.Main(skel.Process{ // in a program: os.Getenv, os.Stdin
		Getenv: func(k string) string { return env[k] },
		Stdin:  strings.NewReader(`{"cniVersion": "1.0.0", "name": "pods"}`),
		Stdout: os.Stdout, Stderr: os.Stderr,
	})
	// Output: {"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"/run/netns/c1"}]}
}
