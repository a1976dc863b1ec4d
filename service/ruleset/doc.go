// Package ruleset describes a table of nftables as data and keeps the kernel's table like it. Rules
// of services and policies are computed as fragments of a [Model], one for each owner; the change of
// an owner is written in one transaction and touches only what that owner has.
//
//	kernel, err := ruleset.NewKernel("planekit-services", "node-1")
//	keeper := ruleset.NewKeeper(kernel, log)
//	var change ruleset.Change
//	keeper.Model.Put("default/web", "", fragment, &change)
//	err = keeper.Commit(ctx, &change) // the first time compares everything
//	repaired, err := keeper.Check(ctx) // every second or so
//
// The kernel's table is never assumed: a Keeper that starts reads it and writes the difference, so a
// restart changes nothing that is right and no connection notices it. After that, every change of any
// table of the namespace increases the kernel's generation; when it is not what the Keeper's own
// transactions account for, the Keeper compares again and repairs. Each rule has its hash as a comment,
// so that it is compared without being decoded.
//
// A transaction happens wholly or not at all, also when the process is killed in it. Only a change of
// thousands of chains, when a table is filled or repaired, is written in several; these order what
// they write so that nothing refers to what does not exist.
//
// A table has one owner, whose name is written into it. A Keeper that finds another name changes
// nothing and returns [ErrOwned]. Only Linux has a [Kernel]; all else works on every system.
package ruleset
