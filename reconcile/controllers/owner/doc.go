// Package owner holds what controllers share that own other objects: how they claim objects, create
// and delete pods, and wait until their caches show their own writes.
//
//	claims := owner.PlanClaims(set, selector, owned, orphans)
//	changed, err := owner.Claim(ctx, claims, set, kind, pods, confirm, wrote)
//
// # Model
//
// An object has at most one controller, the owner reference with controller set. [ByController]
// indexes a cache by it; orphans have a key of their own. A controller adopts an orphan only after
// it has confirmed that its own object is the newest version.
//
// A [Ledger] records the writes of a controller by owner, and its Wait returns when the caches show
// them. A [PodControl] also remembers the writes without an answer: a pod whose creation may have
// succeeded is created again under the same name, and a pod whose deletion may have succeeded
// is deleted again, before anything else is decided.
//
// All state is in memory and may be lost: names are chosen from the UID of the owner and a number,
// so that a new process that makes the same decision is refused.
package owner
