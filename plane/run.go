package plane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/planekit/planekit/apiserver/advertise"
	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/bootstrap"
	"github.com/planekit/planekit/plane/credentials"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/extender"
	"github.com/planekit/planekit/schedule/policy"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
	"github.com/planekit/planekit/schedule/remote"
	"github.com/planekit/planekit/schedule/volumebinding"
	"github.com/planekit/planekit/schedule/volumes"
	"github.com/planekit/planekit/schedule/workload"
)

// makeScheduler makes what runs the scheduler, under its own identity.
func (p *Plane) makeScheduler() error {
	if p.config.NoScheduler {
		return nil
	}
	api, err := p.ClientFor(&user.Info{Name: user.Scheduler, Groups: []string{user.Authenticated}}, "kube-scheduler")
	if err != nil {
		return err
	}
	first, err := p.newScheduler(api) // reports what is wrong with the configuration
	if err != nil {
		return err
	}
	if p.config.ElectScheduler == nil {
		p.schedule = first.run
		return nil
	}
	elector, err := p.config.ElectScheduler.Elector(api, "kube-scheduler", func(ctx context.Context) error {
		s, err := p.newScheduler(api)
		if err != nil {
			return err
		}
		return s.run(ctx)
	}, p.config.Log.WithName("scheduler"))
	if err == nil {
		p.schedule = elector.Run
	}
	return err
}

// scheduler is a scheduler with the connections to its extenders.
type scheduler struct {
	*remote.Scheduler
	extenders []*extender.Client
}

func (s *scheduler) run(ctx context.Context) error {
	defer func() {
		for _, e := range s.extenders {
			e.Close()
		}
	}()
	return s.Run(ctx)
}

// newScheduler makes a scheduler that acts by api.
func (p *Plane) newScheduler(api *client.Client) (*scheduler, error) {
	persistent := typed.PersistentVolumes(api)
	binder, err := volumebinding.New(volumebinding.Config{
		Nodes: p.Caches.Nodes, Claims: p.Caches.PersistentVolumeClaims, Volumes: p.Caches.PersistentVolumes,
		Classes: p.Caches.StorageClasses, Update: persistent.Update,
	})
	if err != nil {
		return nil, err
	}
	checks, err := volumes.New(volumes.Config{
		Claims: p.Caches.PersistentVolumeClaims, Volumes: p.Caches.PersistentVolumes, Classes: p.Caches.StorageClasses,
		CSINodes: p.Caches.CSINodes, Attachments: p.Caches.VolumeAttachments, AttachmentsByNode: p.Caches.AttachmentsByNode,
	})
	if err != nil {
		return nil, err
	}
	together, err := workload.New(workload.Config{
		ServicesByNamespace: p.Caches.ServicesByNamespace, ReplicationControllers: p.Caches.ReplicationControllers, ReplicaSets: p.Caches.ReplicaSets,
	})
	if err != nil {
		return nil, err
	}
	made := &scheduler{}
	spread := schedule.SpreadDefaults{Selector: together.Selector}
	config := schedule.Config{
		Name:       "default-scheduler",
		Predicates: append([]schedule.Predicate{checks.Restrictions(), checks.Limits(), binder, checks.Zone()}, predicates.DefaultSpreading(spread)...),
		Sources:    checks.Sources(),
		Priorities: priorities.DefaultSpreading(spread),
		Nodes:      p.Caches.Nodes,
		Pods:       p.Caches.Pods,
		Namespaces: p.Caches.Namespaces,
		Budgets:    p.Caches.PodDisruptionBudgets,
		Log:        p.config.Log.WithName("scheduler"),
	}
	if file := p.config.SchedulerFile; file != nil {
		config.Sources = append(config.Sources, schedule.Changes(p.Caches.Services))
		if made.extenders, err = addExtenders(&config, file.Extenders()); err != nil {
			return nil, err
		}
		if err := file.Apply(&config, policy.Parts{
			Volumes: binder, Restrictions: checks.Restrictions(), Limits: checks.Limits(), Zone: checks.Zone(), Services: p.Caches.ServicesByNamespace, Together: together.Selector,
		}); err != nil {
			return nil, fmt.Errorf("plane: configuration of the scheduler: %w", err)
		}
	}
	if p.config.Scheduler != nil {
		p.config.Scheduler(&config)
	}
	made.Scheduler, err = remote.New(api, config)
	return made, err
}

// Run starts all parts and runs them until ctx is done, which is no error, or one of them fails. It
// returns when all have stopped. It can be called once.
func (p *Plane) Run(ctx context.Context) error {
	return p.stack.Main(ctx, func(ctx context.Context) error {
		err := p.start(ctx)
		if err == nil {
			close(p.ready)
		}
		return err
	})
}

// start starts the parts from the bottom up.
func (p *Plane) start(ctx context.Context) error {
	if p.opened != nil {
		if err := p.opened.open(ctx, p); err != nil {
			return errors.Join(err, p.listener.Close()) // which the server would close
		}
	}
	for _, c := range p.closers {
		p.stack.OnStop(c.name, c.close)
	}
	p.stack.Start("API server", p.Server.Run)
	if err := p.stack.Await(ctx, p.Server.Ready()); err != nil {
		return err
	}
	// Nothing is written before it is known which webhooks there are.
	if err := p.plugins.Start(ctx, p.stack); err != nil {
		return err
	}
	for _, extension := range p.config.Extensions {
		if err := extension(ctx, p, p.stack); err != nil {
			return err
		}
	}
	if err := p.seed(ctx); err != nil {
		return fmt.Errorf("bootstrap objects: %w", err)
	}
	advertised, err := p.startAdvertiser()
	if err != nil {
		return err
	}
	if p.fairness != nil {
		p.Caches.Start(p.stack, p.Caches.PriorityLevels, p.Caches.FlowSchemas)
		p.stack.Start("flow control", p.fairness.Run)
	}
	p.Caches.Start(p.stack)
	p.stack.Start("aggregation", p.Aggregator.Run)
	if err := p.stack.Await(ctx, p.Aggregator.Ready()); err != nil {
		return err
	}
	if err := p.Authorizers.Start(ctx, p.stack); err != nil {
		return err
	}
	if p.controllers != nil {
		p.controllers.Start(p.stack)
	}
	if p.schedule != nil {
		p.stack.Start("scheduler", p.schedule)
	}
	for _, part := range p.config.Parts {
		if err := part(ctx, p, p.stack); err != nil {
			return err
		}
	}
	if err := p.awaitFairness(ctx); err != nil {
		return err
	}
	return p.stack.Await(ctx, advertised)
}

// seed creates the objects that every cluster begins with.
func (p *Plane) seed(ctx context.Context) error {
	ca := p.Credentials.Authority.CertificatePEM
	config := bootstrap.Config{
		Client: p.client, Resources: p.resources, PriorityClasses: kube.PriorityClasses(), RootCA: ca, NoAccounts: p.config.BareNamespaces,
		Authentication: aggregate.AuthenticationConfigMap(ca, p.Credentials.FrontProxy.CertificatePEM, credentials.FrontProxy),
	}
	if p.config.BareNamespaces {
		config.RootCA = nil
	}
	if err := bootstrap.Seed(ctx, config); err != nil {
		return err
	}
	return bootstrap.Grant(ctx, p.client, p.policy())
}

// startAdvertiser keeps the Service default/kubernetes. The channel is closed once it
// exists.
func (p *Plane) startAdvertiser() (<-chan struct{}, error) {
	advertiser, err := advertise.New(advertise.Config{
		Services:       typed.Services(p.client),
		Endpoints:      typed.Endpoints(p.client),
		EndpointSlices: typed.EndpointSlices(p.client),
		ServiceCIDRs:   typed.ServiceCIDRs(p.client),
		Leases:         advertise.StoreLeases(p.config.Store),
		Address:        p.config.Advertise,
		Ranges:         p.config.ServiceCIDRs,
		Log:            p.config.Log.WithName("advertise"),
	})
	if err != nil {
		return nil, err
	}
	p.stack.Start("advertiser", advertiser.Run)
	return advertiser.Ready(), nil
}

// fairnessTimeout is how long a start waits for the objects of flow control. It goes on
// without them: the built-in configuration is the same, and the keeper tries on.
const fairnessTimeout = 10 * time.Second

func (p *Plane) awaitFairness(ctx context.Context) error {
	if p.fairness == nil {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, fairnessTimeout)
	defer cancel()
	err := p.stack.Await(bounded, p.fairness.Ready())
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		p.config.Log.Info("the objects of flow control are not there yet", "waited", fairnessTimeout.String())
		return nil
	}
	return err
}
