package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// environment holds the program's streams and variables; a test has its own.
type environment struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	Home     string
}

// cli is one run of the program.
type cli struct {
	environment
	kubeconfig, context, namespace string

	mu     sync.Mutex
	warned map[string]bool // guarded by mu
}

// usageError is a mistake on the command line; the user is sent to the help.
type usageError struct {
	command *cobra.Command
	text    string
}

func (e *usageError) Error() string {
	return fmt.Sprintf("%s\nSee '%s -h' for help and examples", e.text, e.command.CommandPath())
}

// words are an error in kubectl's own words, upper case and all.
type words string

func (w words) Error() string { return string(w) }

// errReported says that what went wrong has been printed already.
var errReported = errors.New("reported")

// execute runs the program and returns its exit code.
func execute(ctx context.Context, args []string, e environment) int {
	c := &cli{environment: e, warned: map[string]bool{}}
	root := c.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	switch {
	case err == nil:
		return 0
	case ctx.Err() != nil: // interrupted, as a watch always is
		return 130
	case !errors.Is(err, errReported):
		fmt.Fprintln(e.Err, describe(err))
	}
	return 1
}

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "planectl",
		Short:         "A small kubectl",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetOut(c.Out)
	root.SetErr(c.Err)
	flags := root.PersistentFlags()
	flags.StringVar(&c.kubeconfig, "kubeconfig", "", "path to the kubeconfig file")
	flags.StringVar(&c.context, "context", "", "name of the kubeconfig context to use")
	flags.StringVarP(&c.namespace, "namespace", "n", "", "namespace of the request")
	root.AddCommand(c.runCommand(), c.getCommand(), c.deleteCommand(), c.scaleCommand(), c.autoscaleCommand(), c.explainCommand(), c.certificateCommand(), c.tokenCommand())
	return root
}

// describe words an error as kubectl does.
func describe(err error) string {
	var status *apierrors.StatusError
	switch {
	case errors.As(err, &status):
		return describeStatus(status.ErrStatus)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "The connection to the server was refused - did you specify the right host or port? (" + err.Error() + ")"
	}
	return "error: " + err.Error()
}

func describeStatus(s metav1.Status) string {
	switch s.Reason {
	case metav1.StatusReasonUnauthorized:
		return "error: You must be logged in to the server (" + s.Message + ")"
	case metav1.StatusReasonInvalid:
		return describeInvalid(s)
	case "":
		return "Error from server: " + s.Message
	}
	return fmt.Sprintf("Error from server (%s): %s", s.Reason, s.Message)
}

// describeInvalid names the object and then what is wrong with it, each on a
// line of its own if there are several.
func describeInvalid(s metav1.Status) string {
	d := s.Details
	if d == nil || len(d.Causes) == 0 {
		return "The request is invalid: " + s.Message
	}
	text := fmt.Sprintf("The %s %q is invalid: ", d.Kind, d.Name)
	if len(d.Causes) == 1 {
		return text + d.Causes[0].Field + ": " + d.Causes[0].Message
	}
	for _, cause := range d.Causes {
		text += "\n* " + cause.Field + ": " + cause.Message
	}
	return text
}
