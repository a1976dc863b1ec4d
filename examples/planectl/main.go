// Planectl is a small kubectl: it runs, shows, scales, autoscales and deletes
// objects on a Kubernetes API server.
//
//	planectl run nginx --image=nginx --replicas=3
//	planectl get pods -o wide
//	planectl scale deployment/nginx --replicas=5
//	planectl autoscale deployment/nginx --min=2 --max=10 --cpu=80%
//	planectl delete deployment/nginx
//
// It is put together from the packages below client/; what it prints is worded
// as kubectl v1.36 does. Unlike kubectl's, its run command still makes
// Deployments and Jobs.
package main

import (
	"context"
	"os"
	"os/signal"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	home, _ := os.UserHomeDir() // without one, ~/.kube/config is not looked for
	code := execute(ctx, os.Args[1:], environment{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Home: home})
	stop()
	os.Exit(code)
}
