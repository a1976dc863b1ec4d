package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/printers"
)

// asTable asks for a server-side table
// (https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables).
const asTable = "application/json;as=Table;v=v1;g=meta.k8s.io"

// getter is one run of get.
type getter struct {
	*cli
	server   *client.Client
	everyNS  bool
	selector string
	output   string
	watching bool
}

func (c *cli) getCommand() *cobra.Command {
	g := &getter{cli: c}
	cmd := &cobra.Command{
		Use:   "get TYPE[/NAME] [NAME...]",
		Short: "Show objects",
		RunE:  func(cmd *cobra.Command, args []string) error { return g.get(cmd, args) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&g.everyNS, "all-namespaces", "A", false, "objects of all namespaces")
	flags.StringVarP(&g.selector, "selector", "l", "", "label selector")
	flags.StringVarP(&g.output, "output", "o", "", "output format: json, name, wide or yaml")
	flags.BoolVarP(&g.watching, "watch", "w", false, "after showing the objects, show changes to them")
	return cmd
}

func (g *getter) get(cmd *cobra.Command, args []string) error {
	switch g.output {
	case "", "json", "name", "wide", "yaml":
	default:
		return badFormat(g.output, "json,name,wide,yaml")
	}
	if len(args) == 0 {
		return &usageError{cmd, "you must specify the type of resource to get"}
	}
	server, err := g.connect()
	if err != nil {
		return err
	}
	defer server.Close()
	g.server = server
	if g.everyNS {
		g.namespace = ""
	}
	objects, err := resolve(cmd.Context(), server, args)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if o.name != "" && (g.everyNS || g.selector != "") {
			return errors.New("a resource cannot be retrieved by name across all namespaces or with a selector")
		}
	}
	if g.watching && len(objects) > 1 {
		return errors.New("you may only specify a single resource type")
	}
	if g.output == "" || g.output == "wide" {
		return g.tables(cmd.Context(), objects)
	}
	return g.whole(cmd.Context(), objects)
}

func (g *getter) query() url.Values {
	q := url.Values{}
	if g.selector != "" {
		q.Set("labelSelector", g.selector)
	}
	return q
}

// tables shows objects as tables, one for each resource.
func (g *getter) tables(ctx context.Context, objects []object) error {
	var p *printers.Table
	printed, allNamespaced, failed := false, !g.everyNS, false
	for i := range objects {
		o := &objects[i]
		allNamespaced = allNamespaced && o.Namespaced
		t, err := g.table(ctx, o)
		if err != nil {
			fmt.Fprintln(g.Err, describe(err))
			failed = true
			continue
		}
		if i == 0 || p == nil || o.GroupKind() != objects[i-1].GroupKind() {
			if printed && len(t.Rows) > 0 {
				fmt.Fprintln(g.Out)
			}
			p = printers.NewTable(g.Out, g.tableOptions(o, objects))
		}
		if err := p.Print(t); err != nil {
			return err
		}
		printed = printed || p.Printed()
		if g.watching {
			return g.watchTable(ctx, o, t.ResourceVersion, p)
		}
	}
	switch {
	case failed:
		return errReported
	case !printed && allNamespaced:
		return printers.None(g.Err, g.namespace)
	case !printed:
		return printers.None(g.Err, "")
	}
	return nil
}

func (g *getter) tableOptions(o *object, all []object) printers.TableOptions {
	options := printers.TableOptions{Wide: g.output == "wide", WithNamespace: g.everyNS && o.Namespaced}
	for i := range all {
		if all[i].GroupKind() != o.GroupKind() {
			options.Kind = o.GroupKind() // several types: say which is which
		}
	}
	return options
}

func (g *getter) table(ctx context.Context, o *object) (*metav1.Table, error) {
	response, err := g.server.Do(ctx, client.Request{Path: o.path(g.namespace), Query: g.query(), Accept: asTable})
	if err != nil {
		return nil, err
	}
	t := new(metav1.Table)
	if err := json.Unmarshal(response.Body, t); err != nil {
		return nil, err
	}
	if t.Kind != "Table" {
		return nil, fmt.Errorf("the server sent a %s, not a Table", t.Kind)
	}
	return t, nil
}

// whole shows objects as they are.
func (g *getter) whole(ctx context.Context, objects []object) error {
	var found []printers.Object
	failed, list := false, len(objects) > 1
	revision := ""
	for i := range objects {
		o, err := g.object(ctx, &objects[i])
		if err != nil {
			fmt.Fprintln(g.Err, describe(err))
			failed = true
			continue
		}
		if meta, ok := o["metadata"].(printers.Object); ok {
			revision, _ = meta["resourceVersion"].(string)
		}
		if objects[i].name != "" {
			found = append(found, o)
			continue
		}
		list = true
		found = append(found, items(o, &objects[i])...)
	}
	if err := g.printWhole(found, list); err != nil {
		return err
	}
	if failed {
		return errReported
	}
	if g.watching {
		return g.watchWhole(ctx, &objects[0], revision)
	}
	return nil
}

func (g *getter) object(ctx context.Context, o *object) (printers.Object, error) {
	response, err := g.server.Do(ctx, client.Request{Path: o.path(g.namespace), Query: g.query()})
	if err != nil {
		return nil, err
	}
	return printers.Parse(response.Body)
}

// items takes the objects out of a list, which leaves their kind unsaid.
func items(list printers.Object, o *object) []printers.Object {
	var found []printers.Object
	all, _ := list["items"].([]any)
	for _, item := range all {
		i, ok := item.(printers.Object)
		if !ok {
			continue
		}
		i["apiVersion"], i["kind"] = list["apiVersion"], o.Kind
		found = append(found, i)
	}
	return found
}

func (g *getter) printWhole(found []printers.Object, list bool) error {
	if g.output != "name" && list && !g.watching {
		return g.printObject(g.output, printers.List(found...))
	}
	for i, o := range found {
		if i > 0 && g.output == "yaml" {
			if _, err := io.WriteString(g.Out, "---\n"); err != nil {
				return err
			}
		}
		if err := g.printObject(g.output, o); err != nil {
			return err
		}
	}
	return nil
}
