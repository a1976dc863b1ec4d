//go:build linux

// Package plugins combines planekit's CNI plugins in one program; the name of the executable
// selects the plugin. Any program can contain them if it begins with:
//
//	func main() {
//		if code, ok := plugins.Main(os.Args[0], skel.Process{
//			Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
//		}); ok {
//			os.Exit(code)
//		}
//		...
//	}
//
// and [Install] has created the links.
package plugins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/planekit/planekit/cni"
	"github.com/planekit/planekit/cni/bridge"
	"github.com/planekit/planekit/cni/chain"
	"github.com/planekit/planekit/cni/hostlocal"
	"github.com/planekit/planekit/cni/loopback"
	"github.com/planekit/planekit/cni/portmap"
	"github.com/planekit/planekit/cni/skel"
)

// table lists the plugins by the names of their executables.
var table = []struct {
	name   string
	plugin func() skel.Plugin
}{
	{"planekit-cni", chain.Plugin},
	{"bridge", bridge.Plugin},
	{"host-local", hostlocal.Plugin},
	{"loopback", loopback.Plugin},
	{"portmap", portmap.Plugin},
}

// Names returns the names of the plugins.
func Names() []string {
	var names []string
	for _, row := range table {
		names = append(names, row.name)
	}
	return names
}

// Lookup returns a plugin by name.
func Lookup(name string) (skel.Plugin, bool) {
	for _, row := range table {
		if row.name == name {
			return row.plugin(), true
		}
	}
	return skel.Plugin{}, false
}

// Main makes one call of the plugin named by the last element of arg0, and returns the exit code.
// If that is not a plugin's name, Main does nothing and ok is false.
func Main(arg0 string, p skel.Process) (code int, ok bool) {
	plugin, ok := Lookup(filepath.Base(arg0))
	if !ok {
		return 0, false
	}
	if p.Executor == nil {
		p.Executor = Local{}
	}
	return plugin.Main(p), true
}

// Local is an executor that makes calls of this program's own plugins without a process. It
// resolves the executable to recognize them, so that another plugin of the same name runs as a
// process. A local call ends at its own bounds when the context is done; it cannot be killed
// separately.
type Local struct{}

// Exec implements cni.Executor.
func (l Local) Exec(ctx context.Context, c cni.Call) ([]byte, error) {
	path, err := cni.Find(c.Type, c.Path)
	if err != nil {
		return nil, err
	}
	if plugin, ok := Lookup(c.Type); ok && isSelf(path) {
		return plugin.Exec(ctx, c, l)
	}
	return cni.Processes{}.Exec(ctx, c)
}

// InProcess is an executor that makes calls of planekit's plugins without a process, whether or not
// there are executables of their names. All other plugins run as processes. Like [Local], it cannot kill
// a call.
type InProcess struct{}

// Exec implements cni.Executor.
func (e InProcess) Exec(ctx context.Context, c cni.Call) ([]byte, error) {
	if plugin, ok := Lookup(c.Type); ok {
		return plugin.Exec(ctx, c, e)
	}
	return cni.Processes{}.Exec(ctx, c)
}

func isSelf(path string) bool {
	self, err := os.Executable()
	if err != nil {
		return false
	}
	mine, err1 := os.Stat(self)
	that, err2 := os.Stat(path)
	return err1 == nil && err2 == nil && os.SameFile(mine, that)
}

// Install creates dir and in it a symbolic link to executable for each plugin. It replaces existing
// links, but no other files.
func Install(dir, executable string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range Names() {
		link := filepath.Join(dir, name)
		if info, err := os.Lstat(link); err == nil && info.Mode().Type() != fs.ModeSymlink {
			return fmt.Errorf("install %s: %w and is not a link", link, fs.ErrExist)
		}
		if err := os.Remove(link); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Symlink(executable, link); err != nil {
			return err
		}
	}
	return nil
}
