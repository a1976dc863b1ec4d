package garbage

import (
	"hash/maphash"

	"k8s.io/apimachinery/pkg/types"
)

// uidTable finds numbers by UID without storing the UIDs, which the owner of the numbers already
// has: a map would use as much memory for a copy of each as the rest of the graph. It is a hash
// table with linear probing.
type uidTable struct {
	seed maphash.Seed
	// uid is the UID of a number in the table.
	uid func(number int32) types.UID
	// slots holds numbers; zero marks a free slot. Its length is a power of two, and it is at most
	// three quarters full.
	slots []int32
	used  int
}

const smallestTable = 64

func newUIDTable(uid func(int32) types.UID) uidTable {
	return uidTable{seed: maphash.MakeSeed(), uid: uid, slots: make([]int32, smallestTable)}
}

// home returns the first slot for uid.
func (t *uidTable) home(uid types.UID) int {
	return int(maphash.String(t.seed, string(uid))) & (len(t.slots) - 1)
}

func (t *uidTable) next(slot int) int { return (slot + 1) & (len(t.slots) - 1) }

// find returns the number of uid, or zero.
func (t *uidTable) find(uid types.UID) int32 {
	for slot := t.home(uid); t.slots[slot] != 0; slot = t.next(slot) {
		if t.uid(t.slots[slot]) == uid {
			return t.slots[slot]
		}
	}
	return 0
}

// add adds number. Neither the number nor its UID may be in the table.
func (t *uidTable) add(number int32) {
	if 4*(t.used+1) > 3*len(t.slots) {
		t.resize(2 * len(t.slots))
	}
	t.place(number)
	t.used++
}

func (t *uidTable) place(number int32) {
	slot := t.home(t.uid(number))
	for t.slots[slot] != 0 {
		slot = t.next(slot)
	}
	t.slots[slot] = number
}

func (t *uidTable) resize(size int) {
	old := t.slots
	t.slots = make([]int32, size)
	for _, number := range old {
		if number != 0 {
			t.place(number)
		}
	}
}

// remove removes number, which must be in the table.
func (t *uidTable) remove(number int32) {
	slot := t.home(t.uid(number))
	for t.slots[slot] != number {
		slot = t.next(slot)
	}
	t.slots[slot] = 0
	t.used--
	// An entry that was displaced past the empty slot moves up; else it would not be found.
	for follower := t.next(slot); t.slots[follower] != 0; follower = t.next(follower) {
		moved := t.slots[follower]
		t.slots[follower] = 0
		t.place(moved)
	}
	if len(t.slots) > smallestTable && 8*t.used < len(t.slots) {
		t.resize(len(t.slots) / 2)
	}
}
