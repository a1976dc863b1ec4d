// Package hook calls the lifecycle hooks of containers, postStart and preStop
// (https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/).
//
//	caller := &hook.Client{Exec: exec}
//	err := caller.Call(ctx, probe.Target{Pod: pod, Container: c, ID: id, PodIP: ip}, c.Lifecycle.PostStart)
//
// A command has succeeded if it exits with 0, and a request if it was answered, with any status. A
// hook has no timeout of its own: it ends with its context.
package hook

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/planekit/planekit/kubelet/probe"
)

// A Caller calls a hook and returns when it has ended. It must be safe for concurrent use.
type Caller interface {
	Call(ctx context.Context, t probe.Target, h *corev1.LifecycleHandler) error
}

// CallerFunc is a function that is a Caller.
type CallerFunc func(ctx context.Context, t probe.Target, h *corev1.LifecycleHandler) error

// Call calls f.
func (f CallerFunc) Call(ctx context.Context, t probe.Target, h *corev1.LifecycleHandler) error {
	return f(ctx, t, h)
}

// Client calls hooks over the network and, with Exec, in containers.
type Client struct {
	// Exec runs the commands of exec hooks, without a timeout. Without it, these are errors.
	Exec probe.ExecFunc
	// UserAgent is sent to HTTP servers. Empty means "kube-lifecycle/1.36".
	UserAgent string
}

// Call calls a hook by its handler. A handler for a TCP socket, which the API keeps for
// compatibility, is an error.
func (c *Client) Call(ctx context.Context, t probe.Target, h *corev1.LifecycleHandler) error {
	switch {
	case h.Exec != nil:
		return c.exec(ctx, t, h.Exec)
	case h.HTTPGet != nil:
		return c.httpGet(ctx, t, h.HTTPGet)
	case h.Sleep != nil:
		return sleep(ctx, time.Duration(min(h.Sleep.Seconds, maxSleep))*time.Second)
	}
	return fmt.Errorf("invalid handler: %s has none of exec, httpGet and sleep", t.Container.Name)
}

func (c *Client) exec(ctx context.Context, t probe.Target, action *corev1.ExecAction) error {
	if c.Exec == nil {
		return errors.New("this node cannot run commands in containers")
	}
	var timeout time.Duration
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(time.Second, time.Until(deadline).Round(time.Second))
	}
	output, code, err := c.Exec(ctx, t.ID, action.Command, timeout)
	if err != nil {
		return err
	}
	if code != 0 {
		return &ExitError{Command: action.Command, Code: code, Output: string(output)}
	}
	return nil
}

// An ExitError is the failure of a command that ran.
type ExitError struct {
	Command []string
	Code    int32
	Output  string
}

// Error does not contain the output.
func (e *ExitError) Error() string {
	return fmt.Sprintf("command '%s' exited with %d: ", strings.Join(e.Command, " "), e.Code)
}

// httpGet makes a request. A server that speaks HTTP although the hook says HTTPS gets the request
// in plain text, as in Kubernetes.
func (c *Client) httpGet(ctx context.Context, t probe.Target, action *corev1.HTTPGetAction) error {
	agent := c.UserAgent
	if agent == "" {
		agent = "kube-lifecycle/1.36"
	}
	client := &probe.Client{UserAgent: agent}
	response, err := client.Get(ctx, t, action)
	if errors.Is(err, http.ErrSchemeMismatch) {
		plain := *action
		plain.Scheme = corev1.URISchemeHTTP
		response, err = client.Get(ctx, t, &plain)
	}
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// maxSleep is the longest sleep, in seconds: 68 years. The API takes longer ones, which no time.Duration
// holds.
const maxSleep = math.MaxInt32

// sleep waits for d.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
