package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/printers"
)

func (c *cli) scaleCommand() *cobra.Command {
	replicas := -1
	cmd := &cobra.Command{
		Use:   "scale (TYPE NAME | TYPE/NAME) --replicas=COUNT",
		Short: "Set how many pods something has",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.scale(cmd.Context(), args, replicas)
		},
	}
	cmd.Flags().IntVar(&replicas, "replicas", -1, "the new number of pods")
	return cmd
}

const errReplicas = words("The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0")

func (c *cli) scale(ctx context.Context, args []string, replicas int) error {
	if replicas < 0 {
		return errReplicas
	}
	server, err := c.connect()
	if err != nil {
		return err
	}
	defer server.Close()
	objects, err := resolve(ctx, server, args)
	if err != nil {
		return err
	}
	failed := false
	for i := range objects {
		o := &objects[i]
		if o.name == "" {
			return errors.New("resource(s) were provided, but no name was specified")
		}
		_, err := server.Do(ctx, client.Request{
			Method: http.MethodPatch, Path: o.path(c.namespace) + "/scale",
			ContentType: string(types.MergePatchType), Body: fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas),
		})
		if err != nil {
			fmt.Fprintln(c.Err, describe(err))
			failed = true
			continue
		}
		if err := printers.Name(c.Out, o.GroupKind(), o.name, "scaled"); err != nil {
			return err
		}
	}
	if failed {
		return errReported
	}
	return nil
}
