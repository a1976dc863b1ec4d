//go:build linux

// Command planekit-cni is all of planekit's CNI plugins in one program. It is
// the plugin it is named as: link it as planekit-cni, bridge, host-local,
// loopback and portmap into the directory in which the runtime looks for plugins.
package main

import (
	"os"

	"github.com/planekit/planekit/cni/plugins"
	"github.com/planekit/planekit/cni/skel"
)

func main() {
	p := skel.Process{Getenv: os.Getenv, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	code, ok := plugins.Main(os.Args[0], p)
	if !ok { // named otherwise: the plugin that the program is named after
		code, _ = plugins.Main("planekit-cni", p)
	}
	os.Exit(code)
}
