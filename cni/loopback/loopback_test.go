//go:build linux

package loopback_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"strings"
	"testing"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/loopback"
	"github.com/planekit/planekit/cni/skel"
)

// TestNoNamespace tests a missing network namespace. Package plugins tests lo in an existing one.
func TestNoNamespace(t *testing.T) {
	env := map[string]string{
		"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "a", "CNI_IFNAME": "lo", "CNI_NETNS": t.TempDir() + "/missing",
	}
	call := func(cmd string) (int, string) {
		env["CNI_COMMAND"] = cmd
		var stdout, stderr bytes.Buffer
		code := loopback.Plugin().Main(skel.Process{
			Getenv: func(k string) string { return env[k] },
			Stdin:  strings.NewReader(`{"cniVersion":"1.0.0","name":"lo"}`), Stdout: &stdout, Stderr: &stderr,
		})
		return code, stdout.String()
	}
	if code, out := call(cni.CmdAdd); code != 1 || !strings.Contains(out, "missing") {
		t.Errorf("add: %d %s", code, out)
	}
	if code, out := call(cni.CmdDel); code != 0 || out != "" {
		t.Errorf("del: %d %s", code, out)
	}
}

func Example() {
	out, err := loopback.Plugin().Exec(context.Background(), cni.Call{
		Command: cni.CmdVersion, Type: "loopback", Stdin: []byte(`{"cniVersion": "1.0.0"}`),
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", out)
	// Output: {"cniVersion":"1.0.0","supportedVersions":["0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}
}
