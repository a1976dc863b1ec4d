package kubeflags

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/stack"
)

// fairness holds the flags that bound the requests handled at once.
type fairness struct {
	enabled           bool
	reading, changing int
}

func (f *fairness) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.enabled, "enable-priority-and-fairness", true, "queue requests by the FlowSchemas and PriorityLevelConfigurations of the API; if false, reject requests beyond the two limits below at once")
	flags.IntVar(&f.reading, "max-requests-inflight", 400, "requests handled at once that only read or, with priority and fairness, a part of the sum that priority levels share; 0 means no limit without priority and fairness")
	flags.IntVar(&f.changing, "max-mutating-requests-inflight", 200, "the same for all other requests")
}

func (f *fairness) check() error {
	const most = 1 << 20
	switch {
	case f.reading < 0 || f.reading > most || f.changing < 0 || f.changing > most:
		return errors.New("--max-requests-inflight and --max-mutating-requests-inflight must be between 0 and 1048576")
	case f.enabled && f.reading+f.changing == 0:
		return errors.New("--max-requests-inflight and --max-mutating-requests-inflight are the seats of priority and fairness and must not both be 0")
	}
	return nil
}

func (f *fairness) apply(config *plane.Config, _ *stack.Stack) error {
	config.FlowControl = plane.FlowControl{InFlight: !f.enabled, Reading: f.reading, Changing: f.changing, Unbounded: true}
	return nil
}
