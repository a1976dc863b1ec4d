package informer

// search is the search of one key among several that go on side by side.
type search struct {
	key  string
	hash uint64
	// node is how far the search has come, and leaf what it has found.
	node *node[string, uint32]
	leaf *leaf[string, uint32]
}

// searchAll sets the leaf of each search in the trie n, or leaves it nil. The
// searches go down level by level together, and what a step needs of memory is
// read for all of them first, with nothing that depends on it: then the
// processor waits for all of it at once, and not, at each branch that it guesses
// wrong, for one after the other. The number that is returned means nothing; it
// is there for the reads to be made.
func searchAll(n *node[string, uint32], all []search) (read uint32) {
	for i := range all {
		all[i].node = n
	}
	more := n != nil
	for shift := uint(0); more && shift < hashBits; shift += levelBits {
		for i := range all {
			if n := all[i].node; n != nil {
				read += n.kidMap
			}
		}
		more = false
		for i := range all {
			s := &all[i]
			n := s.node
			if n == nil {
				continue
			}
			s.node = nil
			bit, j := at(s.hash, shift, n.leafMap)
			if n.leafMap&bit != 0 {
				s.leaf = &n.leaves[j]
			} else if n.kidMap&bit != 0 {
				_, j = at(s.hash, shift, n.kidMap)
				s.node, more = n.kids[j], true
			}
		}
	}
	for i := range all {
		if s := &all[i]; s.node != nil {
			// The whole hash is used up.
			if j := s.node.find(s.key); j >= 0 {
				s.leaf = &s.node.leaves[j]
			}
		}
	}
	return read + compareAll(all)
}

// compareAll takes away each leaf that is of another key.
func compareAll(all []search) (read uint32) {
	for i := range all {
		if l := all[i].leaf; l != nil {
			read += l.value
		}
	}
	for i := range all {
		if l := all[i].leaf; l != nil && len(l.key) > 0 {
			read += uint32(l.key[0])
		}
	}
	for i := range all {
		if s := &all[i]; s.leaf != nil && s.leaf.key != s.key {
			s.leaf = nil
		}
	}
	return read
}
