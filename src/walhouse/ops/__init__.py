"""Operations: what people and schedulers want to know, and what to do about errors."""
