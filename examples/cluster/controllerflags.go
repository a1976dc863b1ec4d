package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/planekit/planekit/plane/controllerset"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/spf13/pflag"
)

// controllerOptions are the flags that say which controllers run, and when. They
// have the names and meanings of kube-controller-manager's.
type controllerOptions struct {
	choose []string
	tuning tuning

	elect                                     bool
	leaseDuration, renewDeadline, retryPeriod time.Duration
	leaseName, leaseNamespace                 string
}

func (o *controllerOptions) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.choose, "controllers", []string{"*"}, "which controllers run: * is all, name one, -name not that one; of "+strings.Join(controllerset.Names(), ", "))
	o.tuning.add(flags)
	flags.BoolVar(&o.elect, "leader-elect", false, "run controllers only while this process has the lease that all clusters on one store share")
	flags.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", 15*time.Second, "how long others wait for a leader that does not renew its lease")
	flags.DurationVar(&o.renewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long the leader goes on when it cannot renew its lease")
	flags.DurationVar(&o.retryPeriod, "leader-elect-retry-period", 2*time.Second, "how often it is tried to get or renew the lease")
	flags.StringVar(&o.leaseName, "leader-elect-resource-name", "kube-controller-manager", "name of the lease; the bootstrap policy grants this one")
	flags.StringVar(&o.leaseNamespace, "leader-elect-resource-namespace", "kube-system", "namespace of the lease")
}

// check reports unknown names, and times that contradict each other.
func (o *controllerOptions) check() error {
	if err := controllerset.Check(o.choose); err != nil {
		return fmt.Errorf("--controllers: %w", err)
	}
	if o.leaseDuration <= o.renewDeadline || o.renewDeadline <= o.retryPeriod || o.retryPeriod <= 0 {
		return errors.New("--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline, and that than --leader-elect-retry-period")
	}
	return o.tuning.check()
}

// settings returns what the flags mean to a control plane.
func (o *controllerOptions) settings(metrics controllers.Metrics) controllerset.Options {
	options := controllerset.Options{Choose: o.choose, Tuning: o.tuning.settings(), Metrics: metrics}
	if o.elect {
		options.Elect = &controllerset.Election{
			Namespace: o.leaseNamespace, Name: o.leaseName,
			LeaseDuration: o.leaseDuration, RenewDeadline: o.renewDeadline, RetryPeriod: o.retryPeriod,
		}
	}
	return options
}
