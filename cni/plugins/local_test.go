//go:build linux

package plugins_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/plugins"
)

// A program which the test installs as a plugin is this one or another; this
// one would run tests if it were started.
func TestLocal(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ours, other, foreign := t.TempDir(), t.TempDir(), t.TempDir()
	if err := errors.Join(plugins.Install(ours, self), plugins.Install(ours, self), plugins.Install(other, program)); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\necho '{\"cniVersion\":\"1.0.0\",\"interfaces\":[{\"name\":\"foreign\"}]}'\n"
	if err := os.WriteFile(filepath.Join(foreign, "host-local"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for n, test := range []struct {
		dir, want string
	}{
		{ours, `"10.1.0.2/24"`}, {other, `"10.1.0.2/24"`}, {foreign, `"foreign"`},
	} {
		call := cni.Call{
			Command: cni.CmdAdd, Type: "host-local", Path: []string{test.dir}, ContainerID: "a", NetNS: "/ns", IfName: "eth0",
			Stdin: fmt.Appendf(nil, `{"cniVersion":"1.0.0","name":"n","ipam":{"subnet":"10.1.0.0/24","dataDir":%q}}`, t.TempDir()),
		}
		out, err := plugins.Local{}.Exec(t.Context(), call)
		if err != nil || !strings.Contains(string(out), test.want) {
			t.Errorf("%d: Exec in %s = %s, %v, want a result with %s", n, test.dir, out, err, test.want)
		}
		if test.dir == foreign {
			continue
		}
		_, err = plugins.Local{}.Exec(t.Context(), call) // the error has its code either way
		if e, ok := errors.AsType[*cni.Error](err); !ok || e.Code != cni.CodePlugin {
			t.Errorf("%d: second add: %v", n, err)
		}
	}
	if err := plugins.Install(foreign, self); err == nil || !strings.Contains(err.Error(), "is not a link") {
		t.Errorf("install over another's plugin: %v", err)
	}
	if _, err := (plugins.Local{}).Exec(t.Context(), cni.Call{Type: "bridge", Path: []string{t.TempDir()}}); !errors.Is(err, cni.ErrNoPlugin) {
		t.Errorf("no plugin: %v", err)
	}
}
