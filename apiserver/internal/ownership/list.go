package ownership

import "slices"

// item is an item of a list with its keys.
type item struct {
	*elem
	left bool
	at   int
}

// list compares the items that have the same keys. twice reports that two items of one side have
// the same keys.
func (d *diff) list(p *plan, l, r side) (twice bool, err error) {
	base, parts := len(d.items), len(d.parts)
	defer func() { d.items = d.items[:base] }()
	if err := d.addSide(p, l, true); err != nil {
		return false, err
	}
	if err := d.addSide(p, r, false); err != nil {
		return false, err
	}
	slices.SortStableFunc(d.items[base:], func(a, b item) int { return a.compare(b.elem) })
	end := len(d.items)
	for i := base + 1; i < end; i++ {
		if a, b := &d.items[i-1], &d.items[i]; a.left == b.left && a.compare(b.elem) == 0 {
			d.parts = d.parts[:parts]
			return true, nil
		}
	}
	for i := base; i < end; i++ {
		one := d.items[i]
		var left, right side
		if one.left {
			left = p.elem.at(l.Index(one.at))
		} else {
			right = p.elem.at(r.Index(one.at))
		}
		if i+1 < end && d.items[i+1].compare(one.elem) == 0 {
			i++
			right = p.elem.at(r.Index(d.items[i].at))
		}
		if err := d.compare(&p.elem, one.elem, left, right, nil); err != nil {
			return false, err
		}
	}
	return false, nil
}

// addSide adds the items of one side.
func (d *diff) addSide(p *plan, list side, left bool) error {
	if list.presence != there {
		return nil
	}
	// Items point to their elements, so what is copied to make room would stay as long as they do.
	n := list.Len()
	d.items, d.elems = slices.Grow(d.items, n), slices.Grow(d.elems, n)
	d.parts = slices.Grow(d.parts, n*max(1, len(p.keys)))
	for i := range n {
		from := len(d.parts)
		kind := byKeys
		if p.how == values {
			one, err := partFrom(list.Index(i), partKind(p.elem.declared))
			if err != nil {
				return err
			}
			kind, d.parts = byValue, append(d.parts, one)
		} else if err := d.tellItem(p, p.elem.at(list.Index(i))); err != nil {
			return err
		}
		d.items = append(d.items, item{d.elem(elem{kind: kind, parts: d.parts[from:len(d.parts):len(d.parts)]}), left, i})
	}
	return nil
}

func (d *diff) tellItem(p *plan, one side) error {
	from := len(d.parts)
	if one.presence != there {
		return errOdd
	}
	for i := range p.keys {
		k := &p.keys[i]
		switch v := k.field.of(one); v.presence {
		case null:
			d.parts = append(d.parts, part{name: k.name, kind: isNull})
		case there:
			key, err := partFrom(v.Value, k.kind)
			if err != nil {
				return err
			}
			key.name = k.name
			d.parts = append(d.parts, key)
		default:
			if k.missing != nil {
				d.parts = append(d.parts, *k.missing)
			}
		}
	}
	if len(d.parts) == from {
		return errOdd
	}
	return nil
}
