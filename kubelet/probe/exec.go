package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// exec succeeds if the command exits with 0 in time.
func (c *Client) exec(ctx context.Context, t Target, action *corev1.ExecAction) (Result, string, error) {
	if c.Exec == nil {
		return Failure, "", errors.New("this node cannot run commands in containers")
	}
	timeout := time.Second
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(timeout, time.Until(deadline).Round(time.Second))
	}
	output, code, err := c.Exec(ctx, t.ID, action.Command, timeout)
	output = output[:min(len(output), maxOutput)]
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return Failure, fmt.Sprintf("command timed out: %q timed out after %s", action.Command, timeout), nil
	case err != nil:
		return Failure, "", err
	case code != 0:
		return Failure, string(output), nil
	}
	return Success, string(output), nil
}
