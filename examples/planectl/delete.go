package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/planekit/planekit/client"
)

// deleter is one run of delete.
type deleter struct {
	*cli
	server  *client.Client
	now     bool
	force   bool
	grace   int64 // seconds; negative leaves it to the object
	wait    bool
	timeout time.Duration
}

func (c *cli) deleteCommand() *cobra.Command {
	d := &deleter{cli: c}
	cmd := &cobra.Command{
		Use:   "delete (TYPE NAME... | TYPE/NAME...)",
		Short: "Delete objects",
		RunE:  func(cmd *cobra.Command, args []string) error { return d.delete(cmd.Context(), args) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&d.now, "now", false, "let objects shut down in one second")
	flags.BoolVar(&d.force, "force", false, "do not wait for confirmation that what runs has stopped")
	flags.Int64Var(&d.grace, "grace-period", -1, "seconds given to shut down; negative leaves it to the object")
	flags.BoolVar(&d.wait, "wait", true, "wait until the objects are gone")
	flags.DurationVar(&d.timeout, "timeout", 0, "how long to wait; zero is a week")
	return cmd
}

// settle works out the grace period as kubectl does: zero means one unless
// forced, because zero can leave containers running unseen.
func (d *deleter) settle() error {
	switch {
	case d.now && d.grace >= 0:
		return errors.New("--now and --grace-period cannot be specified together")
	case d.force && d.grace > 0:
		return errors.New("--force and --grace-period greater than 0 cannot be specified together")
	case d.now:
		d.grace = 1
	case d.force:
		d.grace = 0
		fmt.Fprintln(d.Err, "Warning: Immediate deletion does not wait for confirmation that the running resource "+
			"has been terminated. The resource may continue to run on the cluster indefinitely.")
	case d.grace == 0:
		d.grace = 1
	}
	if d.timeout == 0 {
		d.timeout = 7 * 24 * time.Hour
	}
	return nil
}

func (d *deleter) delete(ctx context.Context, args []string) error {
	if err := d.settle(); err != nil {
		return err
	}
	server, err := d.connect()
	if err != nil {
		return err
	}
	defer server.Close()
	d.server = server
	objects, err := resolve(ctx, server, args)
	if err != nil {
		return err
	}
	for _, o := range objects {
		if o.name == "" {
			return errors.New("resource(s) were provided, but no name was specified")
		}
	}
	failed := false
	uids := make([]types.UID, len(objects))
	for i := range objects {
		if uids[i], err = d.one(ctx, &objects[i]); err != nil {
			fmt.Fprintln(d.Err, describe(err))
			failed = true
		}
	}
	if d.wait {
		ctx, cancel := context.WithTimeout(ctx, d.timeout)
		defer cancel()
		for i := range objects {
			if uids[i] == "" {
				continue
			}
			if err := d.gone(ctx, &objects[i], uids[i]); err != nil {
				return err
			}
		}
	}
	if failed {
		return errReported
	}
	return nil
}

// one deletes an object and returns the UID it had, if the server says.
func (d *deleter) one(ctx context.Context, o *object) (types.UID, error) {
	propagation := metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}, PropagationPolicy: &propagation}
	if d.grace >= 0 {
		options.GracePeriodSeconds = &d.grace
	}
	body, err := json.Marshal(options)
	if err != nil {
		return "", err
	}
	response, err := d.server.Do(ctx, client.Request{Method: http.MethodDelete, Path: o.path(d.namespace), Body: body})
	if err != nil {
		return "", err
	}
	became := "deleted"
	if d.grace == 0 {
		became = "force deleted"
	}
	if o.Namespaced {
		became += " from " + d.namespace + " namespace"
	}
	fmt.Fprintf(d.Out, "%s %q %s\n", o.GroupKind(), o.name, became)

	// The answer is the object, or a Status with its UID.
	var answer struct {
		Metadata struct {
			UID types.UID `json:"uid"`
		} `json:"metadata"`
		Details struct {
			UID types.UID `json:"uid"`
		} `json:"details"`
	}
	if err := json.Unmarshal(response.Body, &answer); err != nil {
		return "", err
	}
	if answer.Details.UID != "" {
		return answer.Details.UID, nil
	}
	return answer.Metadata.UID, nil
}

// errGone ends a watch when what was waited for has come.
var errGone = errors.New("gone")

// gone waits until the object of that UID exists no more.
func (d *deleter) gone(ctx context.Context, o *object, uid types.UID) error {
	for {
		response, err := d.server.Do(ctx, client.Request{Path: o.path(d.namespace)})
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) {
			return nil // gone, or not for us to see
		}
		if ctx.Err() != nil {
			return fmt.Errorf("timed out waiting for the condition on %s/%s", o.Plural, o.name)
		}
		if err != nil {
			return err
		}
		var there metav1.PartialObjectMetadata
		if err := json.Unmarshal(response.Body, &there); err != nil {
			return err
		}
		if there.UID != uid {
			return nil
		}
		q := url.Values{"fieldSelector": {"metadata.name=" + o.name}}
		err = follow(ctx, d.server, o.Path(d.namespace), q, there.ResourceVersion, client.JSON,
			func(kind watch.EventType, _ json.RawMessage) error {
				if kind == watch.Deleted {
					return errGone
				}
				return nil
			})
		switch {
		case errors.Is(err, errGone):
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("timed out waiting for the condition on %s/%s", o.Plural, o.name)
		case err != nil && !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err):
			return err
		}
	}
}
