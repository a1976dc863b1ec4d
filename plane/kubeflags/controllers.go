package kubeflags

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/controllerset"
	"github.com/planekit/planekit/plane/stack"
)

// controllerFlags choose the controllers that run, and when.
type controllerFlags struct {
	choose []string
	tuning tuning

	elect                                     bool
	leaseDuration, renewDeadline, retryPeriod time.Duration
	leaseName, leaseNamespace                 string
}

func (c *controllerFlags) add(flags *pflag.FlagSet) {
	flags.StringSliceVar(&c.choose, "controllers", []string{"*"}, "controllers to run: * means all, NAME that one, -NAME not that one; of "+strings.Join(controllerset.Names(), ", "))
	c.tuning.add(flags)
	flags.BoolVar(&c.elect, "leader-elect", false, "run controllers, and the scheduler, only while this process holds the lease that all clusters on one store share")
	flags.DurationVar(&c.leaseDuration, "leader-elect-lease-duration", 15*time.Second, "how long others wait for a leader that does not renew its lease")
	flags.DurationVar(&c.renewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long a leader that cannot renew its lease continues")
	flags.DurationVar(&c.retryPeriod, "leader-elect-retry-period", 2*time.Second, "interval of attempts to acquire or renew the lease")
	flags.StringVar(&c.leaseName, "leader-elect-resource-name", "kube-controller-manager", "name of the lease of the controllers; the bootstrap policy grants this one, and kube-scheduler to the scheduler")
	flags.StringVar(&c.leaseNamespace, "leader-elect-resource-namespace", "kube-system", "namespace of the leases")
}

func (c *controllerFlags) check() error {
	if c == nil {
		return nil
	}
	if err := controllerset.Check(c.choose); err != nil {
		return fmt.Errorf("--controllers: %w", err)
	}
	if c.leaseDuration <= c.renewDeadline || c.renewDeadline <= c.retryPeriod || c.retryPeriod <= 0 {
		return errors.New("--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline, and that than --leader-elect-retry-period")
	}
	return c.tuning.check()
}

func (c *controllerFlags) apply(config *plane.Config, _ *stack.Stack) error {
	if c == nil {
		return nil
	}
	options := &config.Controllers
	options.Choose, options.Tuning = c.choose, c.tuning.settings()
	if c.elect {
		options.Elect = &controllerset.Election{
			Namespace: c.leaseNamespace, Name: c.leaseName,
			LeaseDuration: c.leaseDuration, RenewDeadline: c.renewDeadline, RetryPeriod: c.retryPeriod,
		}
		scheduler := *options.Elect
		scheduler.Name = "" // its own
		config.ElectScheduler = &scheduler
	}
	return nil
}
