// Command kubectl is the stock kubectl, built from k8s.io/kubectl so that the
// tests drive the released client and not an approximation of it.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"

	// Authentication plugins, as the released binary links them.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		// CheckErr prints the error as kubectl words it, and exits.
		util.CheckErr(err)
	}
	os.Exit(0)
}
