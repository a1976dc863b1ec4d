package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/printers"
)

// follow hands each change to o after revision to visit, until the server ends
// the watch or visit fails.
func follow(ctx context.Context, c *client.Client, path string, q url.Values, revision, accept string,
	visit func(kind watch.EventType, object json.RawMessage) error) error {
	q.Set("watch", "true")
	q.Set("resourceVersion", revision)
	body, _, err := c.Stream(ctx, client.Request{Path: path, Query: q, Accept: accept})
	if err != nil {
		return err
	}
	defer body.Close()
	events := json.NewDecoder(body)
	for {
		var e struct {
			Type   watch.EventType `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		if err := events.Decode(&e); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if e.Type == watch.Error {
			var status metav1.Status
			if err := json.Unmarshal(e.Object, &status); err != nil {
				return err
			}
			return &apierrors.StatusError{ErrStatus: status}
		}
		if err := visit(e.Type, e.Object); err != nil {
			return err
		}
	}
}

// changes is the query for changes to o alone, or to all that get shows.
func (g *getter) changes(o *object) url.Values {
	q := g.query()
	if o.name != "" {
		q.Set("fieldSelector", "metadata.name="+o.name)
	}
	return q
}

func (g *getter) watchTable(ctx context.Context, o *object, revision string, p *printers.Table) error {
	return follow(ctx, g.server, o.Path(g.namespace), g.changes(o), revision, asTable,
		func(_ watch.EventType, object json.RawMessage) error {
			t := new(metav1.Table)
			if err := json.Unmarshal(object, t); err != nil {
				return err
			}
			if t.Kind != "Table" {
				return fmt.Errorf("the server sent a %s, not a Table", t.Kind)
			}
			return p.Print(t)
		})
}

func (g *getter) watchWhole(ctx context.Context, o *object, revision string) error {
	return follow(ctx, g.server, o.Path(g.namespace), g.changes(o), revision, client.JSON,
		func(_ watch.EventType, object json.RawMessage) error {
			changed, err := printers.Parse(object)
			if err != nil {
				return err
			}
			if g.output == "yaml" {
				if _, err := io.WriteString(g.Out, "---\n"); err != nil {
					return err
				}
			}
			return g.printObject(g.output, changed)
		})
}
