package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/generators"
	"github.com/planekit/planekit/client/printers"
	"github.com/planekit/planekit/client/typed"
)

func (c *cli) runCommand() *cobra.Command {
	var o generators.RunOptions
	var restart, dryRun, output string
	var command, expose bool
	cmd := &cobra.Command{
		Use:   "run NAME --image=image [--replicas=n] [--restart=policy] [-- arguments]",
		Short: "Create a Deployment, a Job or a Pod that runs an image",
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Image, "image", "", "image to run")
	flags.Int32VarP(&o.Replicas, "replicas", "r", 1, "number of pods")
	flags.StringVar(&restart, "restart", "Always", "Always makes a Deployment, OnFailure a Job, Never a Pod")
	flags.Int32Var(&o.Port, "port", 0, "port that the container exposes")
	flags.BoolVar(&expose, "expose", false, "also create a Service that leads to the pods; needs --port")
	flags.StringArrayVar(&o.Env, "env", nil, "environment variable, as NAME=VALUE; may be repeated")
	flags.StringVarP(&o.Labels, "labels", "l", "", "labels, as key=value,key=value")
	flags.BoolVar(&command, "command", false, "arguments replace the entry point of the image")
	flags.StringVar(&dryRun, "dry-run", "none", "none, or client to print what would be created")
	flags.StringVarP(&output, "output", "o", "", "output format: json, name or yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || cmd.ArgsLenAtDash() == 0 {
			return &usageError{cmd, "NAME is required for run"}
		}
		o.Name, o.Restart = args[0], corev1.RestartPolicy(restart)
		if command {
			o.Command = args[1:]
		} else {
			o.Args = args[1:]
		}
		return c.run(cmd.Context(), o, expose, dryRun, output)
	}
	return cmd
}

func (c *cli) run(ctx context.Context, o generators.RunOptions, expose bool, dryRun, output string) error {
	if dryRun != "none" && dryRun != "client" {
		return fmt.Errorf(`invalid dry-run value (%s): must be "none" or "client"`, dryRun)
	}
	switch output {
	case "", "json", "name", "yaml":
	default:
		return badFormat(output, "json,name,yaml")
	}
	objects, err := generate(o, expose)
	if err != nil {
		return err
	}
	if dryRun == "client" {
		return c.printRun(objects, "created (dry run)", output)
	}
	server, err := c.connect()
	if err != nil {
		return err
	}
	defer server.Close()
	for i, object := range objects {
		object.SetNamespace(c.namespace)
		created, err := create(ctx, server, object)
		if err != nil {
			return errors.Join(c.printRun(objects[:i], "created", output), err)
		}
		objects[i] = created
	}
	return c.printRun(objects, "created", output)
}

// generate makes the objects of run, the Service first: its address is in the variables of pods.
func generate(o generators.RunOptions, expose bool) ([]client.Object, error) {
	object, err := generators.Run(o)
	if err != nil || !expose {
		return []client.Object{object}, err
	}
	service, err := generators.Service(o)
	return []client.Object{service, object}, err
}

// create stores what generate made.
func create(ctx context.Context, c *client.Client, object client.Object) (client.Object, error) {
	switch object := object.(type) {
	case *appsv1.Deployment:
		return typed.Deployments(c).Create(ctx, object)
	case *batchv1.Job:
		return typed.Jobs(c).Create(ctx, object)
	case *corev1.Pod:
		return typed.Pods(c).Create(ctx, object)
	case *corev1.Service:
		return typed.Services(c).Create(ctx, object)
	}
	return nil, errors.New("run made an object of an unknown kind")
}

func (c *cli) printRun(objects []client.Object, became, output string) error {
	for i, object := range objects {
		if i > 0 && output == "yaml" {
			fmt.Fprintln(c.Out, "---")
		}
		if err := c.printOne(object, became, output); err != nil {
			return err
		}
	}
	return nil
}

func (c *cli) printOne(object client.Object, became, output string) error {
	kind := object.GetObjectKind().GroupVersionKind()
	if output == "json" || output == "yaml" {
		text, err := json.Marshal(object)
		if err != nil {
			return err
		}
		o, err := printers.Parse(text)
		if err != nil {
			return err
		}
		return c.printObject(output, o)
	}
	if output == "name" {
		became = ""
	}
	return printers.Name(c.Out, groupKind(kind), object.GetName(), became)
}
