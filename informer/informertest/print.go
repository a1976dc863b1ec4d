package informertest

import (
	"hash/maphash"
	"math"
	"reflect"
)

// seed is shared by the process, so that hashes can be compared.
var seed = maphash.MakeSeed()

// Print returns a hash of v in depth: through pointers, unexported fields, slices and maps. It
// hashes functions and channels by identity. Equal values have equal hashes, and different values
// almost certainly have different ones. Hashes are valid within one process.
func Print(v any) uint64 {
	p := printer{visited: map[visit]bool{}}
	return p.print(reflect.ValueOf(v))
}

// printer records visited values, because cyclic values have no end.
type printer struct{ visited map[visit]bool }

type visit struct {
	pointer uintptr
	typ     reflect.Type
}

func combine(a, b uint64) uint64 {
	return maphash.Comparable(seed, [2]uint64{a, b})
}

func (p printer) print(v reflect.Value) uint64 {
	if !v.IsValid() {
		return 0
	}
	kind := uint64(v.Kind())
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return combine(kind, 1)
		}
		return combine(kind, 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return combine(kind, uint64(v.Int()))
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return combine(kind, v.Uint())
	case reflect.Float32, reflect.Float64:
		return combine(kind, math.Float64bits(v.Float()))
	case reflect.Complex64, reflect.Complex128:
		return combine(math.Float64bits(real(v.Complex())), math.Float64bits(imag(v.Complex())))
	case reflect.String:
		return combine(kind, maphash.String(seed, v.String()))
	case reflect.Interface:
		return combine(kind, p.print(v.Elem()))
	case reflect.Struct:
		sum := kind
		for i := range v.NumField() {
			sum = combine(sum, p.print(v.Field(i)))
		}
		return sum
	case reflect.Array:
		return p.list(kind, v)
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return p.reference(kind, v)
	}
	return combine(kind, uint64(v.Pointer())) // a function or a channel
}

func (p printer) list(sum uint64, v reflect.Value) uint64 {
	for i := range v.Len() {
		sum = combine(sum, p.print(v.Index(i)))
	}
	return combine(sum, uint64(v.Len()))
}

func (p printer) reference(kind uint64, v reflect.Value) uint64 {
	if v.IsNil() {
		return combine(^kind, 0)
	}
	if v.Kind() == reflect.Slice {
		return p.list(kind, v)
	}
	at := visit{v.Pointer(), v.Type()}
	if p.visited[at] {
		return combine(kind, 1)
	}
	p.visited[at] = true
	defer delete(p.visited, at)
	if v.Kind() == reflect.Pointer {
		return combine(kind, p.print(v.Elem()))
	}
	// Maps have no order. Add the hashes of their entries, because a sum has no order either.
	sum := kind
	for entries := v.MapRange(); entries.Next(); {
		sum += combine(p.print(entries.Key()), p.print(entries.Value()))
	}
	return sum
}
