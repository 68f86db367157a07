package fields

import "github.com/criadapter/criadapter/docker"

// Ability says whether an engine supports some fields.
type Ability struct {
	// Fields are named Message.field.
	Fields []string `json:"fields"`
	// Available reports whether the engine supports them.
	Available bool `json:"available"`
	// Needs is the engine or runtime that supports them.
	Needs string `json:"needs"`
}

// Abilities returns the fields that depend on the engine, in the order of the table.
func Abilities(engine docker.Features) []Ability {
	var abilities []Ability
	for _, row := range table() {
		if row.has != nil {
			abilities = append(abilities, Ability{Fields: row.fields, Available: row.has(engine), Needs: row.needs})
		}
	}
	return abilities
}
