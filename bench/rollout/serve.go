package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"

	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/controllerset"
	"github.com/planekit/planekit/plane/stack"
)

const (
	// serveCommand makes this program the server that it measures.
	serveCommand = "serve"
	// serving is the line it writes when its kubeconfig can be used.
	serving = "serving"
)

// serve runs a control plane in memory until ctx is done.
func serve(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet(serveCommand, flag.ContinueOnError)
	config := flags.String("kubeconfig", "", "where the kubeconfig is written")
	profile := flags.String("profile", "", "file for a processor profile of the whole run")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if *profile != "" {
		file, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	c := inMemory()
	c.Parts = []plane.Part{func(_ context.Context, p *plane.Plane, _ *stack.Stack) error {
		if err := p.Kubeconfig().Write(*config); err != nil {
			return err
		}
		fmt.Println(serving)
		return nil
	}}
	p, err := plane.New(c)
	if err != nil {
		return err
	}
	return p.Run(ctx)
}

// inMemory configures a control plane in memory with the controllers that take part in a rollout.
func inMemory() plane.Config {
	return plane.Config{NoScheduler: true, Controllers: controllerset.Options{Choose: []string{
		"deployment-controller", "replicaset-controller", "garbage-collector-controller", "serviceaccount-controller",
	}}}
}
