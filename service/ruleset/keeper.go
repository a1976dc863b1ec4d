package ruleset

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
)

// ErrOwned marks errors meaning that a table has another owner.
var ErrOwned = errors.New("the table has another owner")

// An OwnedError says who owns a table. It is ErrOwned.
type OwnedError struct{ Table, Owner string }

func (e *OwnedError) Error() string {
	return fmt.Sprintf("table %s belongs to %q, so nothing in it is changed; \"nft delete table inet %s\" releases it", e.Table, e.Owner, e.Table)
}

// Is makes the error ErrOwned.
func (e *OwnedError) Is(target error) bool { return target == ErrOwned }

// ErrDamaged marks errors meaning that another program made a part of the table of another kind, so
// that only a new table helps.
var ErrDamaged = errors.New("the table cannot be repaired piece by piece")

// A Target is a table that a [Keeper] writes. A [Kernel] is one.
type Target interface {
	// Apply writes a change to the state that it assumes, and returns by how much that increased the
	// generation.
	Apply(ctx context.Context, c *Change) (uint32, error)
	// Read returns the table, whose rules are only good to be compared.
	Read(ctx context.Context, want Table) (Table, error)
	// Rebuild replaces the whole table.
	Rebuild(ctx context.Context, want Table) error
	// Generation returns a number that increases by one with each change of the table, and possibly
	// with changes of other tables.
	Generation(ctx context.Context) (uint32, error)
	// Sweep deletes what Apply could not delete at once, and returns by how much that increased the
	// generation.
	Sweep(ctx context.Context) (uint32, error)
}

// A Keeper keeps a table like a [Model]. It is not safe for concurrent use.
type Keeper struct {
	// Model is the wanted table. Its owner puts fragments into it and commits the changes.
	Model  *Model
	target Target
	log    logr.Logger
	// known means that the table was like the model at generation.
	known      bool
	generation uint32
	// cost is how long the last comparison took, compared when it ended.
	cost     time.Duration
	compared time.Time
	swept    bool
}

// NewKeeper returns a Keeper that has not read its table.
func NewKeeper(target Target, log logr.Logger) *Keeper {
	return &Keeper{Model: NewModel(), target: target, log: log}
}

// Commit makes the table like the model, of which c is what changed since the last Commit. If the
// Keeper does not know the table, or the table is not as it should be, it compares everything.
func (k *Keeper) Commit(ctx context.Context, c *Change) error {
	if !k.known {
		_, err := k.repair(ctx)
		return err
	}
	if c.Empty() {
		return nil
	}
	k.swept = false
	n, err := k.target.Apply(ctx, c)
	if err == nil {
		k.generation += n
		return nil
	}
	k.known = false
	k.log.Error(err, "could not write a change, comparing the whole table", "size", c.Size())
	_, err = k.repair(ctx)
	return err
}

// share bounds the time that comparisons take: one part in twenty.
const share = 20

// Check compares the table with the model if another program changed any table since the last time,
// and repairs it. It returns how many chains, sets and elements were repaired. A table that takes
// long to compare is compared less often.
func (k *Keeper) Check(ctx context.Context) (repaired int, err error) {
	if !k.swept {
		k.swept = true
		n, err := k.target.Sweep(ctx)
		k.generation += n
		if err != nil {
			return 0, err
		}
	}
	generation, err := k.target.Generation(ctx)
	if err != nil {
		return 0, err
	}
	if k.known && (generation == k.generation || time.Since(k.compared) < share*k.cost) {
		return 0, nil
	}
	return k.repair(ctx)
}

// repair compares the table with the model and writes the difference.
func (k *Keeper) repair(ctx context.Context) (int, error) {
	began := time.Now()
	defer func() { k.compared, k.cost = time.Now(), time.Since(began) }()
	k.known = false
	// A change that comes after this line makes another comparison necessary.
	generation, err := k.target.Generation(ctx)
	if err != nil {
		return 0, err
	}
	want := k.Model.Table()
	have, err := k.target.Read(ctx, want)
	if errors.Is(err, ErrDamaged) {
		k.log.Error(err, "replacing the table")
		return k.rebuild(ctx)
	}
	if err != nil {
		return 0, err
	}
	c := Diff(have, want)
	if c.Empty() {
		k.known, k.generation = true, generation
		return 0, nil
	}
	n, err := k.target.Apply(ctx, c)
	if err != nil {
		k.log.Error(err, "could not repair the table, replacing it", "size", c.Size())
		return k.rebuild(ctx)
	}
	k.swept = false
	k.known, k.generation = true, generation+n
	return c.Size(), nil
}

func (k *Keeper) rebuild(ctx context.Context) (int, error) {
	want := k.Model.Table()
	if err := k.target.Rebuild(ctx, want); err != nil {
		return 0, err
	}
	generation, err := k.target.Generation(ctx)
	k.known, k.generation = err == nil, generation
	return Diff(Table{}, want).Size(), err
}
