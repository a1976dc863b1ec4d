package plugins_test

import (
	"fmt"
	"os"
	"strings"

	"github.com/planekit/planekit/cni/plugins"
	"github.com/planekit/planekit/cni/skel"
)

// A program that is called by the name of a plugin is that plugin.
func Example() {
	env := map[string]string{"CNI_COMMAND": "VERSION"}
	process := skel.Process{ // in a program: os.Getenv, os.Stdin
		Getenv: func(k string) string { return env[k] },
		Stdin:  strings.NewReader(`{"cniVersion": "1.1.0"}`),
		Stdout: os.Stdout, Stderr: os.Stderr,
	}
	for _, arg0 := range []string{"/opt/cni/bin/bridge", "/usr/bin/cluster"} {
		code, ok := plugins.Main(arg0, process)
		fmt.Println(code, ok)
	}
	// Output:
	// {"cniVersion":"1.1.0","supportedVersions":["0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}0 true
	// 0 false
}
