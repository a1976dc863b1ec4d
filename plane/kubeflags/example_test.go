package kubeflags_test

import (
	"context"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/kubeflags"
	"github.com/planekit/planekit/plane/stack"
)

// A control plane with the flags that operators of Kubernetes know.
func Example() {
	flags := pflag.NewFlagSet("server", pflag.ContinueOnError)
	options := kubeflags.Add(flags)
	if err := flags.Parse([]string{"--anonymous-auth=false", "--controllers=*,-job-controller"}); err != nil {
		fmt.Println(err)
		return
	}
	if err := options.Check(); err != nil {
		fmt.Println(err)
		return
	}
	s := stack.New()
	var config plane.Config
	if err := options.Apply(&config, s); err != nil {
		fmt.Println(err)
		return
	}
	p, err := plane.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	s.Start("control plane", p.Run)
	if err := s.Await(context.Background(), p.Ready()); err != nil {
		fmt.Println(err)
		return
	}
	namespace, err := typed.Namespaces(p.Client()).Get(context.Background(), "", "default")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(namespace.Name, namespace.Status.Phase)
	fmt.Println(s.Stop())
	// Output:
	// default Active
	// <nil>
}
