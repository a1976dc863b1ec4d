package claims

import (
	"encoding/json"

	"github.com/planekit/planekit/storage"
)

// A place is where and how the claim of a name is stored.
type place struct {
	name  string
	key   storage.Key
	shown Shown // nil for a record that clients do not see
}

func (t *Table) place(name string) place {
	if t.config.Shown != nil {
		if key, ok := t.config.Shown.Key(name); ok {
			return place{name, key, t.config.Shown}
		}
	}
	return place{name, t.config.Held + storage.Key(name), nil}
}

func (p place) encode(c Claim) ([]byte, error) {
	if p.shown != nil {
		return p.shown.Encode(p.name, c)
	}
	return json.Marshal(c)
}

func (p place) renew(record storage.Record, c Claim) ([]byte, error) {
	if p.shown != nil {
		return p.shown.Renew(record, c)
	}
	return json.Marshal(c)
}

func (p place) decode(record storage.Record) (c Claim, err error) {
	if p.shown != nil {
		return p.shown.Decode(record)
	}
	return c, json.Unmarshal(record.Value, &c)
}
