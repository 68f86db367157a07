package fields

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// setEach sets each field of a message, and of the messages below it, to each of its sample values. It sets one field
// at a time, calls check, and restores the old value. It returns the number of fields.
func setEach(m protoreflect.Message, check func(protoreflect.Message, protoreflect.FieldDescriptor)) int {
	tried := 0
	for i := range m.Descriptor().Fields().Len() {
		field := m.Descriptor().Fields().Get(i)
		tried++
		if m.Has(field) {
			for _, child := range children(field, m.Get(field)) {
				tried += setEach(child, check)
			}
		}
		before, had := proto.Clone(m.Interface()).ProtoReflect(), m.Has(field)
		for _, value := range samples(m, field) {
			m.Set(field, value)
			check(m, field)
			if !had {
				for _, child := range children(field, value) {
					tried += setEach(child, check)
				}
			}
		}
		m.Clear(field)
		if had {
			m.Set(field, before.Get(field))
		}
	}
	return tried
}

// children returns the messages in a field's value.
func children(field protoreflect.FieldDescriptor, value protoreflect.Value) (found []protoreflect.Message) {
	switch {
	case field.Kind() != protoreflect.MessageKind || field.IsMap():
	case field.IsList():
		for i := range value.List().Len() {
			found = append(found, value.List().Get(i).Message())
		}
	default:
		found = append(found, value.Message())
	}
	return found
}

// samples returns the values that setEach tries for a field: all values of a single enumeration, else one value.
func samples(m protoreflect.Message, field protoreflect.FieldDescriptor) (values []protoreflect.Value) {
	if field.IsMap() {
		entries := m.NewField(field)
		entries.Map().Set(protoreflect.ValueOfString("key").MapKey(), protoreflect.ValueOfString("value"))
		return []protoreflect.Value{entries}
	}
	if field.IsList() {
		list := m.NewField(field).List()
		if field.Kind() == protoreflect.MessageKind {
			list.AppendMutable()
		} else {
			list.Append(scalars(field)[0])
		}
		return []protoreflect.Value{protoreflect.ValueOfList(list)}
	}
	if field.Kind() == protoreflect.MessageKind {
		return []protoreflect.Value{m.NewField(field)}
	}
	return scalars(field)
}

func scalars(field protoreflect.FieldDescriptor) (values []protoreflect.Value) {
	switch field.Kind() {
	case protoreflect.BoolKind:
		values = append(values, protoreflect.ValueOfBool(true))
	case protoreflect.StringKind:
		values = append(values, protoreflect.ValueOfString("localhost/x"))
	case protoreflect.BytesKind:
		values = append(values, protoreflect.ValueOfBytes([]byte("x")))
	case protoreflect.EnumKind:
		for i := range field.Enum().Values().Len() {
			values = append(values, protoreflect.ValueOfEnum(field.Enum().Values().Get(i).Number()))
		}
	case protoreflect.Int32Kind:
		values = append(values, protoreflect.ValueOfInt32(1))
	case protoreflect.Int64Kind:
		values = append(values, protoreflect.ValueOfInt64(1))
	case protoreflect.Uint32Kind:
		values = append(values, protoreflect.ValueOfUint32(1))
	case protoreflect.Uint64Kind:
		values = append(values, protoreflect.ValueOfUint64(1))
	default:
		panic("no sample of kind " + field.Kind().String())
	}
	return values
}
