package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	schedulercache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	stockpreemption "k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// quiet silences the log of the stock scheduler, which reports each request that the end of a run cancels. What makes
// a run fail is in the error of the run.
func quiet() { klog.SetLogger(logr.Discard()) }

// newStock makes a stock scheduler with its default profile. It looks at a percentage of the nodes; 0 is
// its default.
func newStock(ctx context.Context, api clientset.Interface, percentage int32) (*scheduler.Scheduler, informers.SharedInformerFactory, error) {
	broadcaster := events.NewEventBroadcasterAdapter(api)
	broadcaster.StartRecordingToSink(ctx.Done())
	context.AfterFunc(ctx, broadcaster.Shutdown)
	factory := scheduler.NewInformerFactory(api, 0)
	s, err := scheduler.New(ctx, api, factory, nil, profile.RecorderFactory(broadcaster.NewRecorder), scheduler.WithPercentageOfNodesToScore(&percentage))
	return s, factory, err
}

// stockCore is the decision core of the stock scheduler.
type stockCore struct {
	ctx       context.Context
	cancel    context.CancelFunc
	scheduler *scheduler.Scheduler
	factory   informers.SharedInformerFactory
	framework framework.Framework
	snapshot  *schedulercache.Snapshot
	preempts  *defaultpreemption.DefaultPreemption
	nodes     map[string]*corev1.Node
}

// newStockCore returns the make of a core that looks at a percentage of the nodes.
func newStockCore(percentage int32) func(context.Context) (core, error) {
	return func(ctx context.Context) (core, error) {
		ctx, cancel := context.WithCancel(ctx)
		c := &stockCore{ctx: ctx, cancel: cancel, nodes: make(map[string]*corev1.Node)}
		if err := c.start(percentage); err != nil {
			cancel()
			return nil, err
		}
		return c, nil
	}
}

func (c *stockCore) start(percentage int32) (err error) {
	// The API is empty: the objects are put into the scheduler's cache.
	if c.scheduler, c.factory, err = newStock(c.ctx, fake.NewClientset(), percentage); err != nil {
		return err
	}
	c.framework = c.scheduler.Profiles[corev1.DefaultSchedulerName]
	var ok bool
	if c.snapshot, ok = c.framework.SnapshotSharedLister().(*schedulercache.Snapshot); !ok {
		return fmt.Errorf("the snapshot is a %T", c.framework.SnapshotSharedLister())
	}
	defaults, err := latest.Default()
	if err != nil {
		return err
	}
	for _, p := range defaults.Profiles[0].PluginConfig {
		if p.Name == names.DefaultPreemption {
			c.preempts, err = defaultpreemption.New(c.ctx, p.Args, c.framework, feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate))
		}
	}
	if err != nil {
		return err
	}
	c.factory.Start(c.ctx.Done())
	c.factory.WaitForCacheSync(c.ctx.Done())
	return c.scheduler.WaitForHandlersSync(c.ctx)
}

func (c *stockCore) close() {
	c.cancel()
	c.scheduler.SchedulingQueue.Close()
	c.factory.Shutdown()
}

func (c *stockCore) log() klog.Logger { return klog.FromContext(c.ctx) }

func (c *stockCore) setNode(n *corev1.Node) error {
	if old := c.nodes[n.Name]; old != nil {
		c.scheduler.Cache.UpdateNode(c.log(), old, n)
	} else {
		c.scheduler.Cache.AddNode(c.log(), n)
	}
	c.nodes[n.Name] = n
	return nil
}

func (c *stockCore) addPod(p *corev1.Pod) error    { return c.scheduler.Cache.AddPod(c.log(), p) }
func (c *stockCore) removePod(p *corev1.Pod) error { return c.scheduler.Cache.RemovePod(c.log(), p) }

func (c *stockCore) place(p *corev1.Pod) (node string, err error) {
	queue := c.scheduler.SchedulingQueue
	queue.Add(c.ctx, p)
	queued, err := queue.Pop(c.log())
	if err != nil {
		return "", err
	}
	defer queue.Done(p.UID)
	node, state, err := c.decide(queued)
	if unfit := (*framework.FitError)(nil); errors.As(err, &unfit) {
		if node, err = c.preempt(state, p, unfit); err != nil {
			return "", err
		}
		nominated := p.DeepCopy()
		nominated.Status.NominatedNodeName = node
		if err := queued.Update(nominated); err != nil {
			return "", err
		}
		node, _, err = c.decide(queued)
	}
	if err != nil {
		return "", err
	}
	assumed := p.DeepCopy()
	assumed.Spec.NodeName = node
	return node, c.scheduler.Cache.AssumePod(c.log(), assumed)
}

// decide chooses a node from a new snapshot.
func (c *stockCore) decide(p *framework.QueuedPodInfo) (node string, state fwk.CycleState, err error) {
	state = framework.NewCycleState()
	if err := c.scheduler.Cache.UpdateSnapshot(c.log(), c.snapshot); err != nil {
		return "", nil, err
	}
	result, err := c.scheduler.SchedulePod(c.ctx, c.framework, state, p)
	return result.SuggestedHost, state, err
}

// preempt chooses victims as the plugin DefaultPreemption does, and removes them.
func (c *stockCore) preempt(state fwk.CycleState, p *corev1.Pod, unfit *framework.FitError) (node string, err error) {
	best, err := c.search(state, p, unfit)
	if err != nil {
		return "", err
	}
	for _, victim := range best.Victims().Pods {
		if err := c.removePod(victim); err != nil {
			return "", err
		}
	}
	return best.Name(), nil
}

// search chooses victims as the plugin DefaultPreemption does: of a tenth of the nodes, but at least a hundred.
func (c *stockCore) search(state fwk.CycleState, p *corev1.Pod, unfit *framework.FitError) (stockpreemption.Candidate, error) {
	nodes, err := unfit.Diagnosis.NodeToStatus.NodesForStatusCode(c.snapshot.NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return nil, err
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("%w: %w", errUnplaced, unfit)
	}
	offset, count := c.preempts.GetOffsetAndNumCandidates(int32(len(nodes)))
	candidates, _, err := c.preempts.Evaluator.DryRunPreemption(c.ctx, state, p, nodes, nil, offset, count)
	if err != nil {
		return nil, err
	}
	if len(candidates) == 0 {
		return nil, fmt.Errorf("%w: %w", errUnplaced, unfit)
	}
	return c.preempts.Evaluator.SelectCandidate(c.ctx, candidates), nil
}

func (c *stockCore) dryRun(p *corev1.Pod, measure func(search func() error)) error {
	queue := c.scheduler.SchedulingQueue
	queue.Add(c.ctx, p)
	queued, err := queue.Pop(c.log())
	if err != nil {
		return err
	}
	defer queue.Done(p.UID)
	_, state, err := c.decide(queued)
	unfit := (*framework.FitError)(nil)
	if !errors.As(err, &unfit) {
		return fmt.Errorf("pod %s: %w", p.Name, err)
	}
	measure(func() error {
		_, err := c.search(state, p, unfit)
		return err
	})
	return nil
}
