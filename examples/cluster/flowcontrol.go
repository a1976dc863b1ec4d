package main

import (
	"errors"

	"github.com/planekit/planekit/plane"
	"github.com/spf13/pflag"
)

// flowOptions bound the requests that are handled at once. The flags have the names and
// meanings of kube-apiserver's.
type flowOptions struct {
	fair              bool
	reading, changing int
}

func (o *flowOptions) add(flags *pflag.FlagSet) {
	flags.BoolVar(&o.fair, "enable-priority-and-fairness", true, "let requests wait by the FlowSchemas and PriorityLevelConfigurations of the API; if not, requests beyond the two bounds below are rejected at once")
	flags.IntVar(&o.reading, "max-requests-inflight", 400, "requests handled at once that only read, or, with priority and fairness, a part of the sum that priority levels share; 0 is no bound without it")
	flags.IntVar(&o.changing, "max-mutating-requests-inflight", 200, "the same for all other requests")
}

func (o *flowOptions) check() error {
	const most = 1 << 20
	switch {
	case o.reading < 0 || o.reading > most || o.changing < 0 || o.changing > most:
		return errors.New("--max-requests-inflight and --max-mutating-requests-inflight must be between 0 and 1048576")
	case o.fair && o.reading+o.changing == 0:
		return errors.New("--max-requests-inflight and --max-mutating-requests-inflight are the seats of priority and fairness and must not both be 0")
	}
	return nil
}

// bounds returns what the flags mean to a control plane.
func (o *flowOptions) bounds() plane.FlowControl {
	return plane.FlowControl{InFlight: !o.fair, Reading: o.reading, Changing: o.changing, Unbounded: true}
}
