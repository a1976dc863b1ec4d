package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/spf13/cobra"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/generators"
)

// autoscaler is one run of autoscale.
type autoscaler struct {
	*cli
	options generators.AutoscaleOptions
	server  *client.Client
	files   []string
	dryRun  string
	output  string
	manager string
	printed int
}

func (c *cli) autoscaleCommand() *cobra.Command {
	a := &autoscaler{cli: c}
	cmd := &cobra.Command{
		Use:   "autoscale (-f FILENAME | TYPE NAME | TYPE/NAME) [--min=MINPODS] --max=MAXPODS [--cpu=CPU] [--memory=MEMORY]",
		Short: "Let an autoscaler set how many pods something has",
	}
	flags, o := cmd.Flags(), &a.options
	flags.Int32Var(&o.Min, "min", -1, "lower limit of the number of pods; negative leaves it to the server")
	flags.Int32Var(&o.Max, "max", -1, "upper limit of the number of pods; required")
	flags.Int32Var(&o.CPUPercent, "cpu-percent", -1, "deprecated: use --cpu")
	flags.StringVar(&o.CPU, "cpu", "", "target of CPU: a percentage of the request, as 70%, or a quantity for each pod, as 500m; a number alone is of thousandths")
	flags.StringVar(&o.Memory, "memory", "", "target of memory: a percentage of the request, as 60%, or a quantity for each pod, as 200Mi; a number alone is of mebibytes")
	flags.StringVar(&o.Name, "name", "", "name of the autoscaler; empty means the name of what it scales")
	flags.StringArrayVarP(&a.files, "filename", "f", nil, "file with the objects to scale, in YAML or JSON; may be repeated")
	flags.StringVar(&a.dryRun, "dry-run", "none", "none, client to print what would be created, or server to let the server check it")
	flags.StringVarP(&a.output, "output", "o", "", "output format: json, name or yaml")
	flags.StringVar(&a.manager, "field-manager", "planectl-autoscale", "name under which the fields are owned")
	if err := cmd.MarkFlagRequired("max"); err != nil {
		panic(err) // it is defined above
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("cpu-percent") {
			fmt.Fprintln(c.Err, "Flag --cpu-percent has been deprecated, Use --cpu with percentage or resource quantity format "+
				"(e.g., '70%' for utilization or '500m' for milliCPU).")
		}
		return a.autoscale(cmd.Context(), args)
	}
	return cmd
}

// check refuses flags before the server is asked anything.
func (a *autoscaler) check(args []string) error {
	switch a.dryRun {
	case "none", "client", "server":
	default:
		return words(fmt.Sprintf(`Invalid dry-run value (%s). Must be "none", "server", or "client".`, a.dryRun))
	}
	switch a.output {
	case "", "json", "name", "yaml":
	default:
		return badFormat(a.output, "json,name,yaml")
	}
	if len(a.files) > 0 && len(args) > 0 {
		return errors.New("when paths, URLs, or stdin is provided as input, you may not specify resource arguments as well")
	}
	return a.options.Validate()
}

func (a *autoscaler) autoscale(ctx context.Context, args []string) error {
	if err := a.check(args); err != nil {
		return err
	}
	given := a.namespace
	var err error
	if a.server, err = a.connect(); err != nil {
		return err
	}
	defer a.server.Close()
	var targets []target
	if len(a.files) > 0 {
		targets, err = a.fromFiles(ctx, given)
	} else {
		targets, err = a.fromArgs(ctx, args)
	}
	if err != nil {
		return err
	}
	failed := false
	for i := range targets {
		if err := a.one(ctx, &targets[i], given); err != nil {
			fmt.Fprintln(a.Err, describe(err))
			failed = true
		}
	}
	if failed {
		return errReported
	}
	return nil
}

// target is an object to scale.
type target struct {
	object
	namespace string
	// exists is set if the object need not be looked up.
	exists bool
}

func (a *autoscaler) fromArgs(ctx context.Context, args []string) ([]target, error) {
	objects, err := resolve(ctx, a.server, args)
	if err != nil {
		return nil, err
	}
	targets := make([]target, len(objects))
	for i, o := range objects {
		if o.name == "" {
			return nil, errors.New("resource(s) were provided, but no name was specified")
		}
		targets[i] = target{object: o, namespace: a.namespace}
	}
	return targets, nil
}

// one creates the autoscaler of a target. given is the namespace from the command line.
func (a *autoscaler) one(ctx context.Context, t *target, given string) error {
	if !t.exists {
		if _, err := a.server.Do(ctx, client.Request{Path: t.path(t.namespace)}); err != nil {
			return err
		}
	}
	if !slices.Contains(t.Subresources, "scale") {
		return fmt.Errorf("cannot autoscale a %s: could not find scale subresource for %s/%s, Resource=%s in discovery information",
			t.Kind, t.Group, t.Version, t.Plural)
	}
	o := a.options
	o.Namespace = given
	o.Target = autoscalingv2.CrossVersionObjectReference{
		APIVersion: schema.GroupVersion{Group: t.Group, Version: t.Version}.String(), Kind: t.Kind, Name: t.name,
	}
	made, err := generators.Autoscale(o)
	if err != nil {
		return err
	}
	became := "created (dry run)"
	if a.dryRun != "client" {
		made.Namespace = t.namespace
		if made, err = a.create(ctx, made); err != nil {
			return err
		}
		if became = "autoscaled"; a.dryRun == "server" {
			became += " (server dry run)"
		}
	}
	if a.printed++; a.printed > 1 && a.output == "yaml" {
		fmt.Fprintln(a.Out, "---")
	}
	return a.printOne(made, became, a.output)
}

// create stores an autoscaler, or lets the server check it.
func (a *autoscaler) create(ctx context.Context, made *autoscalingv2.HorizontalPodAutoscaler) (*autoscalingv2.HorizontalPodAutoscaler, error) {
	body, err := json.Marshal(made)
	if err != nil {
		return nil, err
	}
	query := url.Values{}
	if a.manager != "" {
		query.Set("fieldManager", a.manager)
	}
	if a.dryRun == "server" {
		query.Set("dryRun", "All")
	}
	response, err := a.server.Do(ctx, client.Request{
		Method: http.MethodPost, Path: "/apis/autoscaling/v2/namespaces/" + url.PathEscape(made.Namespace) + "/horizontalpodautoscalers", Query: query, Body: body,
	})
	if err != nil {
		return nil, err
	}
	stored := &autoscalingv2.HorizontalPodAutoscaler{}
	return stored, json.Unmarshal(response.Body, stored)
}
