package objects

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver/flowcontrol"
	"github.com/planekit/planekit/localcache"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// settle is the time for which a Keeper waits after a change for further changes.
	settle = 50 * time.Millisecond
	// interval is the time between two passes over all bootstrap objects.
	interval = time.Minute
	// A write that failed is repeated after a time that doubles from firstRetry to
	// lastRetry. Conflicts are between servers, so that the first wait is not short.
	firstRetry = 200 * time.Millisecond
	lastRetry  = time.Minute
)

// Client writes the objects of one resource, with the errors of
// k8s.io/apimachinery/pkg/api/errors. Updates are guarded by the resource version.
type Client[T any] interface {
	Create(ctx context.Context, object T) (T, error)
	Update(ctx context.Context, object T) (T, error)
	Delete(ctx context.Context, namespace, name string, options metav1.DeleteOptions) error
}

// SchemaClient also writes the status of schemas.
type SchemaClient interface {
	Client[*flowcontrolv1.FlowSchema]
	UpdateStatus(ctx context.Context, object *flowcontrolv1.FlowSchema) (*flowcontrolv1.FlowSchema, error)
}

// Target is configured by a Keeper, such as a *flowcontrol.Controller.
type Target interface {
	Configure(config flowcontrol.Config) error
}

// KeeperConfig joins a Keeper to its surroundings. All fields but Log must be set.
type KeeperConfig struct {
	Levels       localcache.ListSubscriber[*flowcontrolv1.PriorityLevelConfiguration]
	Schemas      localcache.ListSubscriber[*flowcontrolv1.FlowSchema]
	LevelClient  Client[*flowcontrolv1.PriorityLevelConfiguration]
	SchemaClient SchemaClient
	Target       Target
	// Seats is the concurrency limit of the server.
	Seats int
	Log   logr.Logger
}

// Keeper configures a Target as the objects say and keeps the bootstrap objects.
type Keeper struct {
	config  KeeperConfig
	levels  *resource[*flowcontrolv1.PriorityLevelConfiguration]
	schemas *resource[*flowcontrolv1.FlowSchema]
	ready   chan struct{}

	// The fields below belong to Run.

	// configured is the configuration of the Target, skipped the last log about it.
	configured flowcontrol.Config
	skipped    string
	pace       pace
	// maintained is when all bootstrap objects were last right, zero if never.
	maintained time.Time
	// failures counts the passes in a row that failed, and there is no write before
	// retry.
	failures int
	retry    time.Time
}

// NewKeeper checks config. It starts nothing.
func NewKeeper(config KeeperConfig) (*Keeper, error) {
	for _, field := range []struct {
		name    string
		missing bool
	}{
		{"Levels", config.Levels == nil}, {"Schemas", config.Schemas == nil}, {"LevelClient", config.LevelClient == nil},
		{"SchemaClient", config.SchemaClient == nil}, {"Target", config.Target == nil},
	} {
		if field.missing {
			return nil, fmt.Errorf("objects: KeeperConfig.%s is required", field.name)
		}
	}
	if probe := flowcontrol.Mandatory(config.Seats); probe.Validate() != nil {
		return nil, fmt.Errorf("objects: KeeperConfig.Seats: %w", probe.Validate())
	}
	mandatory, suggested := Mandatory(), Suggested()
	k := &Keeper{
		config:  config,
		levels:  newResource("prioritylevelconfigurations", config.Levels, config.LevelClient, mandatory.Levels, suggested.Levels),
		schemas: newResource("flowschemas", config.Schemas, Client[*flowcontrolv1.FlowSchema](config.SchemaClient), mandatory.Schemas, suggested.Schemas),
		ready:   make(chan struct{}),
		pace:    pace{writes: map[string][]time.Time{}, pauses: map[string]time.Time{}},
	}
	k.levels.sameSpec, k.levels.setSpec = sameLevel, setLevel
	k.schemas.sameSpec, k.schemas.setSpec = sameSchema, setSchema
	return k, nil
}

// Ready is closed once all bootstrap objects exist and the Target was configured.
func (k *Keeper) Ready() <-chan struct{} { return k.ready }

// Run keeps the objects and configures the Target until ctx ends. It returns nil. It
// must run once.
func (k *Keeper) Run(ctx context.Context) error {
	// One slot: changes that come during a pass are one more pass.
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	defer k.config.Levels.Subscribe(func(_, _ *flowcontrolv1.PriorityLevelConfiguration) { notify() }).Stop()
	defer k.config.Schemas.Subscribe(func(_, _ *flowcontrolv1.FlowSchema) { notify() }).Stop()
	for _, synced := range []<-chan struct{}{k.config.Levels.Synced(), k.config.Schemas.Synced()} {
		select {
		case <-synced:
		case <-ctx.Done():
			return nil
		}
	}
	for {
		timer := time.NewTimer(time.Until(k.pass(ctx)))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-changed:
			timer.Reset(settle)
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// pass configures the Target, makes the writes that are due and returns when to look
// again.
func (k *Keeper) pass(ctx context.Context) time.Time {
	levels, schemas := slices.Collect(k.config.Levels.All()), slices.Collect(k.config.Schemas.All())
	slices.SortFunc(schemas, func(a, b *flowcontrolv1.FlowSchema) int { return cmp.Compare(a.Name, b.Name) })
	known, err := k.configure(levels, schemas)
	if err != nil {
		k.config.Log.Error(err, "cannot configure flow control")
	}
	now := time.Now()
	if now.Before(k.retry) {
		return k.retry
	}
	due := !now.Before(k.maintained.Add(interval))
	kept := k.maintain(ctx, !due)
	if due && kept == nil {
		k.maintained = now
		if err == nil {
			k.setReady()
		}
	}
	conflict, written := k.writeConditions(ctx, schemas, known)
	if kept == nil && written == nil && !conflict {
		k.failures = 0
		return k.maintained.Add(interval)
	}
	if failed := errors.Join(kept, written); failed != nil && ctx.Err() == nil {
		k.config.Log.Error(failed, "cannot write objects of flow control")
	}
	wait := min(firstRetry<<min(k.failures, 20), lastRetry)
	k.failures++
	k.retry = now.Add(wait + rand.N(wait/2))
	return k.retry
}

func (k *Keeper) setReady() {
	select {
	case <-k.ready:
	default:
		close(k.ready)
	}
}

// configure gives the Target the configuration of the objects if it is another one.
// It returns the levels that exist.
func (k *Keeper) configure(levels []*flowcontrolv1.PriorityLevelConfiguration, schemas []*flowcontrolv1.FlowSchema) (map[string]bool, error) {
	config, known, skipped := read(levels, schemas, k.config.Seats)
	if text := fmt.Sprint(skipped); text != k.skipped {
		k.skipped = text
		for _, err := range skipped {
			k.config.Log.Error(err, "flow control leaves out an object that is not valid")
		}
	}
	if reflect.DeepEqual(config, k.configured) {
		return known, nil
	}
	if err := k.config.Target.Configure(config); err != nil {
		return known, err
	}
	k.configured = config
	return known, nil
}

// maintain keeps the bootstrap objects. If it is urgent, it only creates mandatory
// ones. Levels come before the schemas that name them, and go after them.
func (k *Keeper) maintain(ctx context.Context, urgent bool) error {
	failed := errors.Join(k.levels.keep(ctx, urgent), k.schemas.keep(ctx, urgent))
	if urgent {
		return failed
	}
	return errors.Join(failed, k.schemas.prune(ctx), k.levels.prune(ctx))
}
