package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/lease"
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
	var names []string
	for _, known := range controllers.KnownControllers() {
		names = append(names, known.Name)
	}
	flags.StringSliceVar(&o.choose, "controllers", []string{"*"}, "which controllers run: * is all, name one, -name not that one; of "+strings.Join(names, ", "))
	o.tuning.add(flags)
	flags.BoolVar(&o.elect, "leader-elect", false, "run controllers only while this process has the lease that all clusters on one store share")
	flags.DurationVar(&o.leaseDuration, "leader-elect-lease-duration", 15*time.Second, "how long others wait for a leader that does not renew its lease")
	flags.DurationVar(&o.renewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long the leader goes on when it cannot renew its lease")
	flags.DurationVar(&o.retryPeriod, "leader-elect-retry-period", 2*time.Second, "how often it is tried to get or renew the lease")
	flags.StringVar(&o.leaseName, "leader-elect-resource-name", "kube-controller-manager", "name of the lease; the bootstrap policy grants this one")
	flags.StringVar(&o.leaseNamespace, "leader-elect-resource-namespace", "kube-system", "namespace of the lease")
}

// check finds names that nobody has, and times that contradict each other.
func (o *controllerOptions) check() error {
	var table []controllers.Entry
	for _, known := range controllers.KnownControllers() {
		table = append(table, controllers.Entry{Name: known.Name, Alias: known.Alias, Start: func() (controllers.Runner, error) { return nil, nil }})
	}
	if _, err := controllers.NewManager(controllers.ManagerConfig{Controllers: table, Choose: o.choose}); err != nil {
		return fmt.Errorf("--controllers: %w", err)
	}
	if o.leaseDuration <= o.renewDeadline || o.renewDeadline <= o.retryPeriod || o.retryPeriod <= 0 {
		return errors.New("--leader-elect-lease-duration must be longer than --leader-elect-renew-deadline, and that than --leader-elect-retry-period")
	}
	return o.tuning.check()
}

// elector has all run while this process has the lease.
func (m *manager) elector(all *controllers.Manager) (*reconcile.Elector, error) {
	o := &m.cluster.options.controllers
	self, err := m.as(controllers.Known{Name: "kube-controller-manager", Component: "kube-controller-manager"})
	if err != nil {
		return nil, err
	}
	shared, err := lease.New(lease.Config{Leases: typed.Leases(self.api), Namespace: o.leaseNamespace, Name: o.leaseName})
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	return reconcile.NewElector(reconcile.LeadConfig{
		Identity: host + "_" + rand.Text(), Lease: shared, Work: all.Run,
		LeaseDuration: o.leaseDuration, RenewDeadline: o.renewDeadline, RetryPeriod: o.retryPeriod,
		Log: m.log,
	})
}
